"""Chinese names of signs that no list of given names holds: a surname before signs that make no word, where a name
stands; after a label that says so, any surname of the hundred families."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from groundwatch_review.redaction.names import DOUBLE_SURNAMES, HONORIFIC, SURNAMES, chinese_words
from groundwatch_review.redaction.rules import Detector, Span
from groundwatch_review.redaction.views import View

# Surnames that are seldom anything else; the others of the hundred families are words of every sentence (都, 能, 从).
_SELDOM_WORDS: Final = (
    "鲍岑倪滕殷毕邬卞齐康伍尹瞿阮席季娄童颜梅刁骆樊凌霍虞柯莫裘缪郁杭洪嵇邢裴翁荀甄芮靳邴糜巫隗宓郗栾詹郜蓟邰鄂卓蔺屠翟冉郦璩濮扈"
    "冀庄晏柴艾庾寇殳聂晁訾辛阚饶鞠蒯荆竺桓钭肖岳葛戚苗练"
)
_OTHERS: Final = (
    "费安乐时傅皮元卜平和穆路危江盛钟高夏胡万支昝管卢经房干解应宗丁宣贲邓单包诸左石崔吉钮滑陆荣羊於惠曲封储汲井富乌焦弓牧山谷车侯"
    "全班仰秋仲伊宫宁仇暴甘厉戎祖武符刘景束叶幸司韶黎薄印宿白怀蒲从索咸籍赖乔阴胥能苍双闻莘党谭贡劳逄姬申扶堵宰雍却桑桂牛寿通边燕"
    "郏浦尚农温别阎充慕连茹习宦鱼容向古易慎戈廖终暨居衡步都耿满弘匡国文广禄阙东欧沃利蔚越夔隆师巩厍勾敖融冷那简空曾毋沙乜养须丰巢"
    "关相查后红游权逯盖益公"
)
_HAN: Final = r"[\u4e00-\u9fff]"
_SURNAME: Final = rf"(?:{DOUBLE_SURNAMES}|[{SURNAMES}{_SELDOM_WORDS}])"
_ANY_SURNAME: Final = rf"(?:{DOUBLE_SURNAMES}|[{SURNAMES}{_SELDOM_WORDS}{_OTHERS}])"
_BEFORE: Final = (
    r"(?:^|[^\u4e00-\u9fff0-9]|谢谢|感谢|请问|[成为]了|[A-Za-z0-9]的|"
    r"(?:客户|用户|患者|员工|同事|学员|会员)|[由让找请给跟与叫但是成为被对系])"
)
_AFTER: Final = (
    r"(?=[^\u4e00-\u9fff]|$|[的于在说问也]|已经|没[收有]|未[收能到]|签[署字订]|"
    r"负责|反[馈映]|投诉|申请|致电|来电|称|表示|提[交出]|报告|告诉|认为)"
)
_LABEL: Final = (
    r"(?:[我他她]叫|名叫|姓名|户名|收件人|收货人|联系人|持卡人|车主|持照人|受益人|审批人|申请人|投保人|被保险人|经办人|负责人|法定代表人|"
    r"客户|用户|患者|员工|学员|会员|同事|乙方|甲方|居民|爱人|妻子|丈夫|直属领导|签字人|当事人|家属|监护人)"
)
_LABELLED: Final = re.compile(
    rf"""{_LABEL}[是为:\s"'|,]{{0,4}}({_ANY_SURNAME}{_HAN}{{1,3}}?)(?=[^\u4e00-\u9fff]|$|[的也于在]|先生|女士)"""
)
_SAID_BY_HIMSELF: Final = re.compile(rf"我(?:是|叫)({_ANY_SURNAME}{_HAN}{{1,2}})(?=[,，。!！;；]|$)")
_HONOURED: Final = re.compile(rf"{_BEFORE}({_ANY_SURNAME}{_HAN}{{0,2}})(?={HONORIFIC})")
_STANDS: Final = re.compile(rf"{_BEFORE}({_SURNAME}{_HAN}{{2}})(?<![的等说了在是和就也吗呢]){_AFTER}")
_ORGANISED: Final = re.compile(
    r"公司|集团|银行|中心|部门?$|处$|科$|店$|厂$|局$|院$|校$|组$|人$|员$|者$|客服|热线|平台|系统|手机|电话|邮箱|号码|信息|地址|资料|名单|姓名|签字|证件|"
    r"[证图号网率值权费级点性器库表框码机度量版端界口庄层]$"
)


def _no_word(name: str) -> bool:
    """Whether the signs of *name* make no words, neither from the first nor after it."""
    return not any(part in chinese_words() for part in (name, name[:2], name[1:3]))


def _find(view: View) -> Iterator[Span | None]:
    for pattern in (_LABELLED, _SAID_BY_HIMSELF, _HONOURED, _STANDS):
        yield None
        for match in pattern.finditer(view.folded):
            if _is_name(pattern, match.group(1)):
                yield Span(*match.span(1), "PERSON")


def _is_name(pattern: re.Pattern[str], name: str) -> bool:
    if _ORGANISED.search(name):
        return False
    if pattern is _STANDS or name[0] in _OTHERS:
        return len(name) < 2 or _no_word(name)
    return name not in chinese_words() and name[:2] not in chinese_words()


UNLISTED_NAMES_ZH: Final = Detector("unlisted_names_zh", "1", _find)
