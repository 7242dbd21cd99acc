"""Names of persons by their context, and Chinese names by their characters.

Two kinds of evidence count here: a phrase that announces a name ("my name is", 我叫, Dr., 先生, a salutation), and in
Chinese a surname followed by characters that people are often given. English lists: :mod:`.english_names`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from groundwatch_review.redaction.english_names import shipped_lines, shipped_lists
from groundwatch_review.redaction.rules import Rule, by_rules
from groundwatch_review.redaction.views import View

_CAP: Final = r"[A-Z\u00c0-\u00de][A-Za-z\u00c0-\u024f'’\-]{1,24}"
_FULL: Final = rf"{_CAP}(?: (?:[A-Z]\. )?{_CAP}){{0,2}}"
_TWO: Final = rf"{_CAP} (?:[A-Z]\. )?{_CAP}"

_NOT_NAMES: Final = frozenset(
    [
        "The",
        "This",
        "That",
        "There",
        "Where",
        "What",
        "When",
        "Who",
        "Why",
        "How",
        "Yes",
        "No",
        "Not",
        "And",
        "But",
        "If",
        "Is",
        "Are",
        "Was",
        "In",
        "On",
        "At",
        "It",
        "You",
        "We",
        "They",
        "Please",
        "Sorry",
        "Thanks",
        "Hello",
        "Hi",
        "Dear",
        "Error",
        "True",
        "False",
        "None",
        "NOT",
    ]
)


# A closed set: Favour, Trust and Knowledge are words that people are called.
_GREETED: Final = (
    "world all everyone everybody team teams customer customers support sir madam sirs colleague colleagues folks "
    "guys community user users admin administrator subscriber member members reader"
)


def _named(match: re.Match[str], _view: View) -> bool:
    words = match.group(1).split(" ")
    return words[0] not in _NOT_NAMES and not (len(words) > 1 and all(map(_only_a_word, words)))


def _only_a_word(word: str) -> bool:
    """Whether a dictionary holds *word* and no list of names does: "Name: Web Frontend" is nobody."""
    lists = shipped_lists()
    return lists.in_dictionary(word) and lists.is_given(word) is None and lists.is_surname(word) is None


def _announced(pattern: str) -> Rule:
    """A name, as the first group of *pattern*, after words that announce one."""
    return Rule("PERSON", re.compile(pattern), view="folded", group=1, accepts=_named)


_ENGLISH: Final = (
    _announced(
        rf"(?<![A-Za-z])(?:(?i:mr|mrs|miss|dr|prof|professor|sir|madam)|M[sS]|(?<![0-9])(?<![0-9] )ms)\.? ({_FULL})"
    ),
    _announced(
        rf"""(?<![A-Za-z])(?i:name)(?:["']?\s?[:=]\s?["']?| (?:is|was|to|on card|on the card)[:]? )({_FULL})"""
    ),
    Rule(
        "PERSON",
        re.compile(rf"(?<![A-Za-z])(?:my|her|his|their|maiden|partner's|customer) (?i:name) ({_TWO})"),
        group=1,
    ),
    _announced(rf"(?<![A-Za-z])(?:I'm|I am|[Tt]his is|calls? me|named) ({_TWO})"),
    _announced(
        rf"(?<![A-Za-z])(?i:contact|patient|applicant|holder|employee|customer|guardian|spouse|driver|owner|"
        rf"signed by|regards|sincerely|attn|cardholder|beneficiary|recipient)[,:]?\s{{1,2}}({_TWO})"
    ),
    # One word is enough where the phrase leaves no other reading.
    _announced(
        rf"(?<![A-Za-z])(?i:(?:my|her|his|their|maiden|last|first) name(?:['’]s| is)?|calls? me|"
        rf"named h(?:im|er)) ({_CAP})"
    ),
    # Salutations, signatures and mail headers.
    Rule(
        "PERSON",
        re.compile(rf"(?:^|\n|[\"“>] ?)(?:Hi|Hello|Dear|Hey) ({_FULL})[,!:]"),
        view="folded",
        group=1,
        accepts=lambda match, view: _named(match, view) and match.group(1).lower() not in _GREETED.split(),
    ),
    _announced(
        rf"(?:[Rr]egards|Sincerely|Cheers|Thanks|Best wishes|Best|Yours(?: truly)?),?"
        rf"\s{{0,2}}\n\s{{0,4}}({_FULL})(?=\s|$)"
    ),
    _announced(
        rf"(?:^|\n)(?:From|To|Cc|CC|Bcc|Reply-To|Sender|Author|Assignee|Reviewer|"
        rf"Signed-off-by): ({_FULL})(?=\s|<|$)"
    ),
    Rule("PERSON", re.compile(rf"({_TWO}) <[^<>@\s]{{1,64}}@"), view="folded", group=1, needs=("@",)),
)

SURNAMES: Final = (
    "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田"
    "任姜范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文"
)
DOUBLE_SURNAMES: Final = "欧阳|上官|司马|诸葛|东方|皇甫|尉迟|公孙|慕容|令狐|夏侯|司徒|端木|南宫"
_SURNAME: Final = rf"(?:{DOUBLE_SURNAMES}|[{SURNAMES}])"
# Characters that are common in given names and rare right after a surname character in ordinary words.
_GIVEN: Final = (
    "伟芳娜敏静丽强磊军洋勇艳杰娟涛超霞刚桂英华玉兰梅琴红玲鹏辉慧婷雪琳浩宇轩然涵欣怡梓晨子雨佳琪志建国明俊峰波斌"
    "淑珍秀莲凤洁莉飞龙鑫旭阳博豪思诗悦婉萱瑶颖楠璐倩薇蕾晓小海燕永健文雅芬蓉彤昊睿哲瀚毅翔凯泽嘉诚彬"
    "庆祥福荣贵春秋云月光林森忠义仁德胜平康宁顺世松菊荷芝芸茜蕊莎珊瑜瑾琦瑞璇琛珂玥珺琼瑛霖霏雯霄露震岩岚嵘川江洲沛泓洪润淇清渊源滨潇"
    "澜炎炜烨煜焕熙晗昕旻晟晴晖景曦朗朝杨枫柯桐楷榕樱歆忆怀恒恩惠懿承振扬捷敬昂冠勋勤伦俐佩佑仪亮民东兴友友章章学宝家克全根"
)
_NOT_ALONE: Final = (
    "高明 高兴 高贵 高洁 安静 平静 文静 文雅 文明 文章 金鑫 白云 黄金 高峰 高志 万世 常平 易燃 "
    "沈阳 金华 龙岩 邵阳 常德 韩国 石英 叶子 高德"
)
_FUNCTION: Final = "的了在是和与说也已想要有于被把给从对向来去到还就都很及或将办致反没收登申"
_NAME: Final = rf"({_SURNAME} ?[\u4e00-\u9fff](?:[\u4e00-\u9fff](?<![{_FUNCTION}]))?)"
HONORIFIC: Final = (
    r"(?:先生|女士|小姐|太太|经理|老师|医生|律师|师傅|主任|同学|阿姨|教授|总(?![额计数量体是之共结部会统领局]))"
)


@cache
def chinese_words() -> frozenset[str]:
    """Words of the language that begin as a name could, and the most frequent of two signs."""
    return frozenset(shipped_lines("chinese_words.txt"))


_OFFICE: Final = re.compile("经理|老师|医生|律师|师傅|主任|教授")
_HAN: Final = re.compile(r"[\u4e00-\u9fff]")
_ONLY_PEOPLE: Final = ("姓名", "户名", "联系人", "收件人", "收货人", "持卡人", "申请人", "经办人", "负责人")


def _is_an_office(match: re.Match[str]) -> bool:
    """高级经理 is one; 高级先生 and 文静老师 would be people."""
    found = match.group(1)
    return (
        found in chinese_words() and found[-1] not in _GIVEN and _OFFICE.match(match.string, match.end()) is not None
    )


def _begins_a_word(match: re.Match[str]) -> bool:
    """我是程序员, 我是高级会员: a word, or one and the beginning of the next. 姓名：沈阳 is a person nevertheless."""
    found = match.group(1)
    goes_on = _HAN.match(match.string, match.end()) is not None
    if not goes_on and found in _NOT_ALONE.split() and match.group().startswith(_ONLY_PEOPLE):
        return False
    return found in chinese_words() or (goes_on and found[:2] in chinese_words() and found[-1] not in _GIVEN)


_CHINESE: Final = (
    Rule(
        "PERSON",
        re.compile(rf"({_SURNAME}(?:[\u4e00-\u9fff]{{1,2}})?)(?={HONORIFIC})"),
        view="folded",
        group=1,
        accepts=lambda match, _view: not _is_an_office(match),
    ),
    Rule(
        "PERSON",
        re.compile(
            r"(?:[我他她]叫|我是|名叫|姓名|户名|收件人|收货人|联系人|持卡人|车主|持照人|受益人|审批人|申请人|投保人|经办人|负责人|"
            r"法定代表人|患者|客户|甲方|乙方|居民|爱人|妻子|丈夫|同事)"
            rf"""[是为:\s"'|,]{{0,4}}{_NAME}(?![司品店])"""
        ),
        view="folded",
        group=1,
        accepts=lambda match, _view: not _begins_a_word(match),
    ),
    Rule(
        "PERSON",
        re.compile(rf"(?!韩国|文明建|.国家)(?:{_SURNAME}) ?[{_GIVEN}]{{2}}"),  # 西方国家, 生态文明建设
        view="folded",
    ),
    # Two characters need an edge on both sides: a bracket, a comma, a particle, the name of a file.
    Rule(
        "PERSON",
        re.compile(
            rf"(?:^|[，。；：:、\s\"“「（(|/_\\]|[由让找请给跟与叫])({_SURNAME}[{_GIVEN}])"
            r"(?=[\s，。；：:、|的说问在_.”」）)（(]|签|负责|反馈|$)"
        ),
        view="folded",
        group=1,
        accepts=lambda match, _view: match.group(1) not in _NOT_ALONE.split(),
    ),
    # 古丽娜尔·吐尔逊, 约翰·史密斯: the dot is written in names only.
    Rule(
        "PERSON",
        re.compile(
            r"(?:(?<=[是叫找由给请])|(?<=客户)|(?<=患者)|(?<=用户)|(?<![\u4e00-\u9fff]))[\u4e00-\u9fff]{2,6}[·•][\u4e00-\u9fff]{2,6}?"
            r"(?=[的说问在是（(，。：]|[^\u4e00-\u9fff]|$)"
        ),
        view="folded",
        needs=("·", "•"),
    ),
    Rule(
        "PERSON",
        re.compile(
            r"(?:客户|用户|患者|员工|会员|学员)([\u4e00-\u9fff]{2,5}?)(?=的(?:姓名|名字|账户|账号|订单|手机|电话|身份证|住址))"
        ),
        view="folded",
        group=1,
    ),
)

NAMES: Final = by_rules("names", "1", (*_ENGLISH, *_CHINESE))
