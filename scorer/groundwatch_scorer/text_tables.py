"""Word lists behind :mod:`.text`. Written by hand for this project, but for the second table of characters."""

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
# Chosen from TSCharacters of OpenCC (Apache-2.0): traditional characters of Big5 that GB 2312 does not have, whose
# simplified form it has. So text in simplified characters is never changed.
_MORE_TRADITIONAL = (
    "丟亙佇併侶侷俁俠俬倀倆倖側偵傑傖傢傯傴僂僉僑僕僥僨僱儂儈儉儐儔儕儘儷儺儻儼兇兌兗冑冪凈凜剄剋剎剝剮剴剷劃劊劌勁勛勝勱勻匭匯匱卹厙厤厴叢吶咼唄唸喫喲嗆嗇嗚嗩嗶嘍嘔嘖嘜嘩嘮嘯嘰嘵嘸噁噓噠噥噦噯噲噴噸噹嚀嚌嚐嚕嚙嚥嚦嚨嚮嚳嚶囀囁囂"
    "囅囈囌囑囪圇埡埰堊堝堯塋塏塒塗塚塢塤塹墊墮墾壎壙壚壢壯夢奐奩奼妝姍姦娛婁婭媧媯媼嫋嫗嫻嬈嬋嬙嬡嬤嬪嬰嬸孃孌孿寀寢尷屍屜屢屨峴峽崍崑崗崙崢嵐嶁嶄嶇嶗嶠嶧嶸嶽巋巒巔巖巰巹幃幗幘幟幬幾廂廄廕廝廡廩弒弔弳彆彔彙彥彫彿徠恆恥悵悶悽惲惻"
    "愜愨愴愷愾慄慍慘慚慟慪慫慮慳慼慾憂憊憐憒憚憫憮懇懌懍懞懟懣懨懶懺懼懾戇戔戧戩挾捨捫掄揀搗摑摜摟摯摳摶摻撈撐撓撟撣撥撳撻撾擄擣擯擰擱擲擷擺擻擼攄攆攏攖攙攛攢攣攤攪攬敵斂斃斕斬旂昇晉晝暈暉曄曇曏曖曬朧朮枴柵柺桿梔梟棖棟棧棲椏楓楨"
    "榦榪榿槍槓槧槨槳樁樅樑樸樺橈橢橫檁檉檜檣檯檳檸檻櫃櫓櫚櫛櫝櫞櫟櫥櫧櫨櫪櫫櫬櫱櫳櫸櫻欏欒欖欞欽歎歟歿殞殤殫殭殮殯殲殼毆毿氂氌氫氬氳氾汎汙泝洩洶浹涇淒淥淩淪淵淶渙渦湞湧溈溼滄滅滌滎滬滷滸滾漁漚漣漬漵潁潑潛潯潷潿澀澆澇澗澠澩澮澱濁"
    "濘濛濫濰濺濼瀅瀆瀉瀋瀕瀘瀟瀠瀦瀧瀨瀰瀲瀾灃灄灕灘灝灤灩烴煒煢煥煩煬熒熗熾燁燉燜燬燭燴燻燼燾爍爛牘犖犛犢狽猙猶猻獃獪獫獰獲獷獺獼玀琱琺琿瑋瑣瑤瑩璉璣璦璽璿瓊瓏瓔瓚甌甕甦疇疊痙痠痾瘍瘓瘞瘡瘧瘺癆癇癉癒癘癟癡癤癥癩癬癭癮癰癱癲皁皚"
    "皰皸皺盃盞盡盪眥睏睜睞瞞瞼矇矚矯硃硤硨硯碩碭磣磧磯磽礎礪礫礬礱祕祿禎禦禪禰禱禿秈稅稈稜稟穀穌穎穡穢穫窩窪窯窶窺竄竅竇筍筧箇箋箏篋篤篩篳簀簍簑簞簣簫簾籌籜籟籠籩籪籬籮籲粵糝糞糰糲糴糶紂紆紇紈紉紐紓紕紜紡紮紱紲紳紺紼紿絀絃絆絎絛"
    "絞絢絨絳綃綆綈綏綑綞綢綣綬綰綴綵綸綹綺綻綽綾緄緇緋緗緘緙緝緞締緡緦緩緬緯緱緲緶緹緻縈縉縊縋縐縑縛縝縞縟縭縱縲縴縵縶縷縹繃繅繆繒繕繚繡繢繭繯繰繹繽繾纈纊纍纏纓纖纘纜缽罈罌罵罷羆羈羋羥羨羶翫翹耬聞聵聶聹聾肅脅脈脛脣脩脫脹腎腡腫腸"
    "膃膠膩膽膾膿臍臏臘臚臠臥艤艫艱艷芻苧茲荊莢莧菴萇萊萵葒葦葯葷蒐蒔蒞蒼蓀蓆蓮蓯蓴蓽蔔蔘蔞蔥蔦蔭蕁蕆蕎蕓蕕蕘蕢蕩蕪蕷薈薊薌薑薔薟薺藎藪藶藹藺蘄蘆蘊蘚蘞蘢蘺蘿虛虜虯蛺蛻蜆蝕蝟蝨蝸螄螞螢螻蟄蟈蟣蟬蟯蟶蟻蠅蠆蠍蠐蠑蠔蠣蠱蠶蠻衊衕衚衝袞"
    "裊褳褸褻襉襖襝襠襤襪襬襯襲覈覓覘覡覦覬覯覲覷覿觴觶訃訊訌訐訕訖託訛訝訟訣訥訶証詁詆詎詒詔詘詛詠詡詢詣詫詬詭詮詰詵詼詿誄誅誆誑誒誘誚誡誣誥誦誨誶誹誼諂諄諉諍諏諑諒諗諛諜諞諡諢諤諦諧諫諭諮諱諳諶諷諺諼謁謂謄謅謊謎謐謔謖謗謙謚謠謨"
    "謫謬謳謾譁譎譏譖譙譚譟譫譭譴譽譾讎讒讕讖讚讜讞豎豔豬貓貞貢貧貯貰貲貳貴貶貸貺貽賁賂賃賄賅賈賑賒賕賚賜賞賠賡賤賧賻賾贄贅贍贐贓贖贗贛趲跡踐踰踴蹌蹕蹟蹠蹣蹤蹺躉躊躋躑躒躓躕躚躡躥躦躪軀軋軒軔軛軫軸軹軺軻軼軾輅輇輊輒輓輜輝輞輟輥輦"
    "輳輻輾輿轂轅轆轍轎轔轟轡轢轤辮辯逕遙遜邁邇邏邐郟鄆鄒鄔鄖鄰鄲鄴鄶鄺酈醃醜醞釀釁釃釅釐釓釔釕釗釘釙釣釤釦釧釩釵釷釹鈀鈁鈄鈅鈉鈍鈐鈑鈕鈞鈣鈥鈦鈧鈮鈰鈳鈴鈷鈸鈹鈺鈽鈾鈿鉀鉅鉆鉈鉉鉍鉑鉗鉚鉞鉦鉬鉭鉸鉺鉻鉿銃銑銓銖銘銚銜銠銣銥銦銨銩銪"
    "銫銬銳銻銼鋃鋅鋇鋌鋏鋝鋟鋤鋦鋨鋮鋯鋰鋱鋸錁錆錈錐錒錕錘錙錚錛錟錠錦錨錮錳錶錸錼鍆鍇鍊鍍鍔鍘鍛鍤鍥鍬鍰鍶鍺鍼鍾鎂鎊鎌鎘鎚鎢鎣鎦鎧鎩鎪鎬鎮鎰鎳鎵鏃鏇鏌鏍鏑鏗鏘鏜鏝鏞鏟鏢鏤鏨鏵鏷鏹鏽鐃鐋鐐鐒鐓鐔鐙鐠鐨鐫鐮鐲鐳鐸鐺鐿鑄鑊鑌鑑鑒鑠鑣鑭"
    "鑲鑷鑼鑽鑾钁閂閆閌閎閏閑閒閔閘閡閣閤閥閨閩閫閬閭閶閹閻閼閽閾閿闃闆闇闈闋闌闐闔闕闖闞闡闢闥陘陝陞陣陰陽隉隕隴隸雋雛雞霑霽靂靄靚靦靨鞏鞝鞦韁韃韆韉韋韌韓韙韜韝韞韻頁頃頇頊頌頎頏頑頒頓頗頜頡頤頦頰頷頸頹顆顎顓顙顛顢顥顫顰顱顳顴颮"
    "颯颱颳颶颼飄飆飢飩飪飫飭飴飼餃餈餉餌餑餒餓餘餚餛餞餡餬餱餳餵餼餾餿饃饅饈饉饋饌饑饒饗饜饞馭馱馳馴駁駐駑駒駔駘駙駝駟駢駭駱駿騁騅騍騏騖騫騭騮騰騶騷騸騾驀驁驂驃驄驊驍驏驕驛驟驢驤驥驪骯髏髒髕髖髮鬍鬚鬢鬧鬨鬩鬮鬱魎魘魯魴魷鮐鮑鮒鮚"
    "鮞鮪鮫鮭鯀鯁鯇鯉鯊鯔鯖鯗鯛鯡鯢鯤鯧鯨鯪鯫鯰鯽鰈鰉鰍鰒鰓鰣鰥鰨鰩鰭鰱鰲鰳鰷鰹鰻鰾鱈鱉鱒鱔鱖鱗鱘鱟鱧鱭鱷鱸鱺鳧鳩鳶鴆鴇鴉鴕鴛鴝鴟鴣鴦鴯鴰鴻鴿鵂鵑鵒鵓鵜鵝鵠鵡鵪鵬鵯鵰鵲鶇鶉鶘鶚鶩鶯鶴鶻鶼鶿鷂鷓鷗鷙鷚鷥鷦鷯鷲鷳鷴鷸鷹鷺鸕鸚鸛鸝鸞鹵鹹"
    "鹺鹼麥麩黌黲黴黷黽黿鼉鼕鼴齋齎齏齔齙齜齟齠齣齦齧齪齬齲齶齷龔龕爲衆"
)
_MORE_SIMPLIFIED = (
    "丢亘伫并侣局俣侠私伥俩幸侧侦杰伧家偬伛偻佥侨仆侥偾雇侬侩俭傧俦侪尽俪傩傥俨凶兑兖胄幂净凛刭克刹剥剐剀铲划刽刿劲勋胜劢匀匦汇匮恤厍历厣丛呐呙呗念吃哟呛啬呜唢哔喽呕啧唛哗唠啸叽哓呒恶嘘哒哝哕嗳哙喷吨当咛哜尝噜啮咽呖咙向喾嘤啭嗫嚣"
    "冁呓苏嘱囱囵垭采垩埚尧茔垲埘涂冢坞埙堑垫堕垦埙圹垆坜壮梦奂奁姹妆姗奸娱娄娅娲妫媪袅妪娴娆婵嫱嫒嬷嫔婴婶娘娈孪采寝尴尸屉屡屦岘峡崃昆岗仑峥岚嵝崭岖崂峤峄嵘岳岿峦巅岩巯卺帏帼帻帜帱几厢厩荫厮庑廪弑吊弪别录汇彦雕佛徕恒耻怅闷凄恽恻"
    "惬悫怆恺忾栗愠惨惭恸怄怂虑悭戚欲忧惫怜愦惮悯怃恳怿懔蒙怼懑恹懒忏惧慑戆戋戗戬挟舍扪抡拣捣掴掼搂挚抠抟掺捞撑挠挢掸拨揿挞挝掳捣摈拧搁掷撷摆擞撸摅撵拢撄搀撺攒挛摊搅揽敌敛毙斓斩旗升晋昼晕晖晔昙向暧晒胧术拐栅拐杆栀枭枨栋栈栖桠枫桢"
    "干杩桤枪杠椠椁桨桩枞梁朴桦桡椭横檩柽桧樯台槟柠槛柜橹榈栉椟橼栎橱槠栌枥橥榇蘖栊榉樱椤栾榄棂钦叹欤殁殒殇殚僵殓殡歼壳殴毵牦氇氢氩氲泛泛污溯泄汹浃泾凄渌凌沦渊涞涣涡浈涌沩湿沧灭涤荥沪卤浒滚渔沤涟渍溆颍泼潜浔滗涠涩浇涝涧渑泶浍淀浊"
    "泞蒙滥潍溅泺滢渎泻沈濒泸潇潆潴泷濑弥潋澜沣滠漓滩灏滦滟烃炜茕焕烦炀荧炝炽烨炖焖毁烛烩熏烬焘烁烂牍荦牦犊狈狰犹狲呆狯猃狞获犷獭猕猡雕珐珲玮琐瑶莹琏玑瑷玺璇琼珑璎瓒瓯瓮苏畴叠痉酸疴疡痪瘗疮疟瘘痨痫瘅愈疠瘪痴疖症癞癣瘿瘾痈瘫癫皂皑"
    "疱皲皱杯盏尽荡眦困睁睐瞒睑蒙瞩矫朱硖砗砚硕砀碜碛矶硗础砺砾矾砻秘禄祯御禅祢祷秃籼税秆棱禀谷稣颖穑秽获窝洼窑窭窥窜窍窦笋笕个笺筝箧笃筛筚箦篓蓑箪篑箫帘筹箨籁笼笾簖篱箩吁粤糁粪团粝籴粜纣纡纥纨纫纽纾纰纭纺扎绂绁绅绀绋绐绌弦绊绗绦"
    "绞绚绒绛绡绠绨绥捆缍绸绻绶绾缀彩纶绺绮绽绰绫绲缁绯缃缄缂缉缎缔缗缌缓缅纬缑缈缏缇致萦缙缢缒绉缣缚缜缟缛缡纵缧纤缦絷缕缥绷缫缪缯缮缭绣缋茧缳缲绎缤缱缬纩累缠缨纤缵缆钵坛罂骂罢罴羁芈羟羡膻玩翘耧闻聩聂聍聋肃胁脉胫唇修脱胀肾脶肿肠"
    "腽胶腻胆脍脓脐膑腊胪脔卧舣舻艰艳刍苎兹荆荚苋庵苌莱莴荭苇药荤搜莳莅苍荪席莲苁莼荜卜参蒌葱茑荫荨蒇荞芸莸荛蒉荡芜蓣荟蓟芗姜蔷莶荠荩薮苈蔼蔺蕲芦蕴藓蔹茏蓠萝虚虏虬蛱蜕蚬蚀猬虱蜗蛳蚂萤蝼蛰蝈虮蝉蛲蛏蚁蝇虿蝎蛴蝾蚝蛎蛊蚕蛮蔑同胡冲衮"
    "袅裢褛亵裥袄裣裆褴袜摆衬袭核觅觇觋觎觊觏觐觑觌觞觯讣讯讧讦讪讫托讹讶讼诀讷诃证诂诋讵诒诏诎诅咏诩询诣诧诟诡诠诘诜诙诖诔诛诓诳诶诱诮诫诬诰诵诲谇诽谊谄谆诿诤诹诼谅谂谀谍谝谥诨谔谛谐谏谕咨讳谙谌讽谚谖谒谓誊诌谎谜谧谑谡谤谦谥谣谟"
    "谪谬讴谩哗谲讥谮谯谭噪谵毁谴誉谫雠谗谰谶赞谠谳竖艳猪猫贞贡贫贮贳赀贰贵贬贷贶贻贲赂赁贿赅贾赈赊赇赉赐赏赔赓贱赕赙赜贽赘赡赆赃赎赝赣趱迹践逾踊跄跸迹跖蹒踪跷趸踌跻踯跞踬蹰跹蹑蹿躜躏躯轧轩轫轭轸轴轵轺轲轶轼辂辁轾辄挽辎辉辋辍辊辇"
    "辏辐辗舆毂辕辘辙轿辚轰辔轹轳辫辩迳遥逊迈迩逻逦郏郓邹邬郧邻郸邺郐邝郦腌丑酝酿衅酾酽厘钆钇钌钊钉钋钓钐扣钏钒钗钍钕钯钫钭钥钠钝钤钣钮钧钙钬钛钪铌铈钶铃钴钹铍钰钸铀钿钾巨钻铊铉铋铂钳铆钺钲钼钽铰铒铬铪铳铣铨铢铭铫衔铑铷铱铟铵铥铕"
    "铯铐锐锑锉锒锌钡铤铗锊锓锄锔锇铖锆锂铽锯锞锖锩锥锕锟锤锱铮锛锬锭锦锚锢锰表铼镎钔锴炼镀锷铡锻锸锲锹锾锶锗针钟镁镑镰镉锤钨蓥镏铠铩锼镐镇镒镍镓镞旋镆镙镝铿锵镗镘镛铲镖镂錾铧镤镪锈铙铴镣铹镦镡镫镨镄镌镰镯镭铎铛镱铸镬镔鉴鉴铄镳镧"
    "镶镊锣钻銮镢闩闫闶闳闰闲闲闵闸阂阁合阀闺闽阃阆闾阊阉阎阏阍阈阌阒板暗闱阕阑阗阖阙闯阚阐辟闼陉陕升阵阴阳陧陨陇隶隽雏鸡沾霁雳霭靓腼靥巩绱秋缰鞑千鞯韦韧韩韪韬鞲韫韵页顷顸顼颂颀颃顽颁顿颇颌颉颐颏颊颔颈颓颗颚颛颡颠颟颢颤颦颅颞颧飑"
    "飒台刮飓飕飘飙饥饨饪饫饬饴饲饺糍饷饵饽馁饿余肴馄饯馅糊糇饧喂饩馏馊馍馒馐馑馈馔饥饶飨餍馋驭驮驰驯驳驻驽驹驵骀驸驼驷骈骇骆骏骋骓骒骐骛骞骘骝腾驺骚骟骡蓦骜骖骠骢骅骁骣骄驿骤驴骧骥骊肮髅脏髌髋发胡须鬓闹哄阋阄郁魉魇鲁鲂鱿鲐鲍鲋鲒"
    "鲕鲔鲛鲑鲧鲠鲩鲤鲨鲻鲭鲞鲷鲱鲵鲲鲳鲸鲮鲰鲶鲫鲽鳇鳅鳆鳃鲥鳏鳎鳐鳍鲢鳌鳓鲦鲣鳗鳔鳕鳖鳟鳝鳜鳞鲟鲎鳢鲚鳄鲈鲡凫鸠鸢鸩鸨鸦鸵鸳鸲鸱鸪鸯鸸鸹鸿鸽鸺鹃鹆鹁鹈鹅鹄鹉鹌鹏鹎雕鹊鸫鹑鹕鹗鹜莺鹤鹘鹣鹚鹞鹧鸥鸷鹨鸶鹪鹩鹫鹇鹇鹬鹰鹭鸬鹦鹳鹂鸾卤咸"
    "鹾碱麦麸黉黪霉黩黾鼋鼍冬鼹斋赍齑龀龅龇龃龆出龈啮龊龉龋腭龌龚龛为众"
)
TRADITIONAL_TO_SIMPLIFIED = dict(zip(_TRADITIONAL + _MORE_TRADITIONAL, _SIMPLIFIED + _MORE_SIMPLIFIED, strict=True))

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
