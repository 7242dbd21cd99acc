"""Word lists behind :mod:`.text`. Written by hand for this project."""

# ruff: noqa: E501, SIM905
from __future__ import annotations

ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st jr sr vs etc e.g i.e eg ie cf al fig figs no nos vol pp p ed eds inc ltd co corp dept approx "
    "gen sen rep gov lt col sgt capt rev hon jan feb mar apr jun jul aug sep sept oct nov dec mt ave blvd u.s u.k u.n "
    "a.m p.m ph.d".split()
)

ENGLISH_STOP_WORDS = frozenset(
    "a an the this that these those there here it its it's itself he she they them their theirs his her hers him we us "
    "our ours you your yours i me my mine who whom whose which what when where why how is am are was were be been being "
    "do does did doing done have has had having will would shall should can could may might must ought of in on at by "
    "for with from to into onto over under out up down off about above below between through during before after until "
    "while and or but nor so yet if then than as because since although though however therefore thus also too very "
    "just only own same such both each few more most other others some any all no not don't doesn't didn't isn't aren't "
    "wasn't weren't can't cannot couldn't won't wouldn't shouldn't haven't hasn't hadn't n't s t re ve ll d m i'm you're "
    "he's she's they're we're that's there's what's let's get got gets e g ie eg etc one per via upon within without "
    "please yes ok okay january february march april june july august september october november december".split()
)

# Single characters that carry grammar and no content; they end a run of characters.
CHINESE_PARTICLES = "的了着吗呢吧啊呀么嘛之与及或也就又是被把将"

CHINESE_STOP_BIGRAMS = frozenset(
    "我们 你们 他们 它们 这个 那个 这些 那些 一个 一些 一种 因此 所以 因为 但是 不过 然而 如果 虽然 由此 此外 "
    "什么 怎样 怎么 如何 多少 哪里 哪个 哪些 为何 是否 请问 需要 进行 通过 根据 关于 以及 同时 "
    "个月 没有 不是 已经 目前 其中".split()
)

_TRADITIONAL = (
    "萬與專業東絲兩嚴喪個豐臨為麗舉麼義烏樂喬習鄉書買亂爭於虧雲亞產畝親億僅從侖倉儀們價眾優會傘偉傳傷倫偽體傭債傾償儲兒"
    "黨蘭關興養獸內岡冊寫軍農馮沖決況凍淨準涼減湊鳳憑凱擊鑿劉則剛創刪別劑劍劇勸辦務動勵勞勢勳區醫華協單賣盧衛卻廠廳歷厲"
    "壓厭廁廈廚縣參雙發變敘葉號嘆後嚇呂嗎啟吳員聽呈週響啞喚嘗團園圍國圖圓聖場壞塊堅壇壩墳墜壟壘報壺處備夠頭誇夾奪奮獎奧"
    "婦媽嫵嬌孫學寧寶實寵審憲宮寬賓對尋導壽將爾塵嘗層屆屬歲豈嶼島嶺幣帥師帳帶幫幹並廣莊慶廬庫應廟龐廢開異棄張彌彎彈強歸"
    "當錄徹徑徵憶懷態總戀惡惱悅懸驚懲慣憤願戲戰戶撲執擴掃揚擾撫拋搶護報擔擬擁攔擇掛揮換據捲掙擠擋損撿搖攜攝數齊斷無舊時"
    "曠曆顯曉暫術機殺雜權條來楊極構棗樞標樣樹橋檢樓欄榮歐歡殘毀畢氈氣漢湯溝沒瀝淚潔灑淺漿測濟渾濃濤潤澤漲滲溫遊灣濕滿濾"
    "滯漸潰瀏濱災燈靈爐點煉熱燒燙煙營燦愛爺牆牽犧狀獨狹獅獄獵獻瑪環現電畫暢療瘋癢盜鹽監蓋盤瞭礦碼磚確礙禮禍離種積稱穩窮"
    "竊競筆節範築簽簡籃糧糾紀約級紅紋納紙純紗綱紛線練組細織終紹經綁結繞繪給絡絕統絹綉繼績緒續綿維綜綠緊編緣縮縫繁總繩繳"
    "網羅罰職聯聰聲聳腦腳膚臉臟艙艦藝蘇蘋範莖薦藥蔣蕭薩藍蟲雖蝦蠟補裝裡褲複見規視覺覽觀觸計訂認討讓訓議記講許論設訪證評"
    "識詐訴診詞試詩誠話誕該詳語誤說請諸諾讀課誰調談謀謝謹譜譯貝負財責賢敗貨質販貪購貫貿費賀賊資賦賭賴賺賽贊贈贏趙趕趨躍"
    "車軌軟轉輪輕載較輔輛輩輯輸轄辭邊遼達遷過運還這進遠違連遲適選遞遺郵鄭鄧醬釋針鉤鈔鋼鑰錢鉛鐵銀銅鋁銷鎖鋒錯錫鍵鍋鏡鐘"
    "長門閃閉問間閱闊隊階際陸陳險隨隱隻難電霧靜頂項順須預領頻題額顏類顧風飛飯飲飽飾餅館馬駕駛騎騙驗驅魚鮮鳥鳴鴨黃齒齡龍"
    "龜臺灣檔雙證額貼掃碼賬鏈閱歷憑證顯屏幀註冊啓裏纔遊復繫係籤鋪準佈佔採迴誌週鬆製鬥後麵"
)
_SIMPLIFIED = (
    "万与专业东丝两严丧个丰临为丽举么义乌乐乔习乡书买乱争于亏云亚产亩亲亿仅从仑仓仪们价众优会伞伟传伤伦伪体佣债倾偿储儿"
    "党兰关兴养兽内冈册写军农冯冲决况冻净准凉减凑凤凭凯击凿刘则刚创删别剂剑剧劝办务动励劳势勋区医华协单卖卢卫却厂厅历厉"
    "压厌厕厦厨县参双发变叙叶号叹后吓吕吗启吴员听呈周响哑唤尝团园围国图圆圣场坏块坚坛坝坟坠垄垒报壶处备够头夸夹夺奋奖奥"
    "妇妈妩娇孙学宁宝实宠审宪宫宽宾对寻导寿将尔尘尝层届属岁岂屿岛岭币帅师帐带帮干并广庄庆庐库应庙庞废开异弃张弥弯弹强归"
    "当录彻径征忆怀态总恋恶恼悦悬惊惩惯愤愿戏战户扑执扩扫扬扰抚抛抢护报担拟拥拦择挂挥换据卷挣挤挡损捡摇携摄数齐断无旧时"
    "旷历显晓暂术机杀杂权条来杨极构枣枢标样树桥检楼栏荣欧欢残毁毕毡气汉汤沟没沥泪洁洒浅浆测济浑浓涛润泽涨渗温游湾湿满滤"
    "滞渐溃浏滨灾灯灵炉点炼热烧烫烟营灿爱爷墙牵牺状独狭狮狱猎献玛环现电画畅疗疯痒盗盐监盖盘了矿码砖确碍礼祸离种积称稳穷"
    "窃竞笔节范筑签简篮粮纠纪约级红纹纳纸纯纱纲纷线练组细织终绍经绑结绕绘给络绝统绢绣继绩绪续绵维综绿紧编缘缩缝繁总绳缴"
    "网罗罚职联聪声耸脑脚肤脸脏舱舰艺苏苹范茎荐药蒋萧萨蓝虫虽虾蜡补装里裤复见规视觉览观触计订认讨让训议记讲许论设访证评"
    "识诈诉诊词试诗诚话诞该详语误说请诸诺读课谁调谈谋谢谨谱译贝负财责贤败货质贩贪购贯贸费贺贼资赋赌赖赚赛赞赠赢赵赶趋跃"
    "车轨软转轮轻载较辅辆辈辑输辖辞边辽达迁过运还这进远违连迟适选递遗邮郑邓酱释针钩钞钢钥钱铅铁银铜铝销锁锋错锡键锅镜钟"
    "长门闪闭问间阅阔队阶际陆陈险随隐只难电雾静顶项顺须预领频题额颜类顾风飞饭饮饱饰饼馆马驾驶骑骗验驱鱼鲜鸟鸣鸭黄齿龄龙"
    "龟台湾档双证额贴扫码账链阅历凭证显屏帧注册启里才游复系系签铺准布占采回志周松制斗后面"
)
TRADITIONAL_TO_SIMPLIFIED = dict(zip(_TRADITIONAL, _SIMPLIFIED, strict=True))

# Stems of words that make a sentence a question and say nothing of its subject.
ENGLISH_QUESTION_WORDS = frozenset(
    "whats tell know want need lik mean way possibl long many much big far often old explain describ find giv use "
    "work happen doe pleas help someon someth anyth best good differ between around".split()
)

CHINESE_QUESTION_WORDS = frozenset(
    "什么 怎么 怎样 如何 多少 多久 多大 多长 几个 几天 几次 哪里 哪个 哪些 哪种 为何 为什 是否 可以 能不 不能 能否 有没 没有 请问 一下 "
    "告诉 诉我 需要 想知 知道 是什 么样 么办 会不 是不 不是 几 哪 谁 多 我 你 您 我们 你们 怎".split()
)

# Words of which one stands for the other's opposite.
OPPOSITES_EN = (
    "increase/decrease rise/fall higher/lower more/less fewer/more maximum/minimum max/min before/after earlier/later first/last "
    "all/some always/never enable/disable enabled/disabled include/exclude includes/excludes included/excluded allow/forbid allowed/forbidden "
    "allowed/prohibited required/optional mandatory/optional public/private opened/unopened open/closed accept/reject success/failure "
    "mutable/immutable ascending/descending true/false left/right north/south east/west male/female win/lose won/lost full/partial "
    "positive/negative sync/async synchronous/asynchronous add/remove added/removed free/paid old/new start/end begin/end internal/external "
    "upper/lower uppercase/lowercase largest/smallest longest/shortest faster/slower safe/unsafe supported/unsupported valid/invalid"
)
OPPOSITES_ZH = (
    "增加/减少 上升/下降 提高/降低 允许/禁止 开启/关闭 启用/禁用 打开/关闭 最大/最小 最高/最低 最多/最少 之前/之后 公开/私有 必须/可选 成功/失败 "
    "免费/付费 永久/临时 升序/降序 全部/部分 所有/部分 专业版/免费版 上涨/下跌 增长/下降 同意/反对 支持/反对 包含/不含 包括/不包括 能够/无法 早于/晚于 高于/低于 多于/少于 左/右"
)
