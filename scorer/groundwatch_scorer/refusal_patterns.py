# ruff: noqa: E501 - one phrase pattern a line reads better than a folded one
"""Phrases of declining, courtesy and turning, in English and Chinese. Matched against folded (lower-case) text."""

from __future__ import annotations

import re

# What an answer calls its sources. Words that the documents themselves use of files and texts need a "provided" before.
_SOURCE_EN = (
    r"(?:(?:the |these |those |this |your |our |my |any )?(?:(?:provided|given|available|retrieved|supplied|above|current|following|reference|product|user) ){0,2}"
    r"(?:documents?|documentation|docs|contexts?|sources?|passages?|manuals?|articles?|excerpts?|search results?|knowledge base)"
    r"|(?:the |this |your |any )?(?:provided|given|available|retrieved|supplied|above)(?: \w+)? (?:information|texts?|materials?|content|results|data|pages?|files?|paragraphs?)"
    r"|the information (?:provided|given|available|supplied)(?: (?:in|by) (?:the |this )?(?:\w+ )?(?:context|documents?|text))?)"
)
_LACK_EN = (
    r"(?:do(?:es)? not|don't|doesn't|did not|didn't|cannot|can't) (?:seem to |appear to |actually |directly |explicitly |specifically |clearly )?"
    r"(?:contain|mention|say|state|specify|provide|include|cover|describe|address|indicate|give|discuss|have|answer|explain|list|tell|offer|define)"
)
_ABILITY_EN = (
    r"(?:answer|help|assist|find|provide|tell|say|determine|confirm|give|offer|fulfil+|comply|do that|do this|locate|identify|"
    r"recommend|complete|engage|support|create|generate|write|discuss|share|access|predict|satisfy|respond|suggest|advise)"
)
# Declining of any kind: what a sentence says about the speaker's own ability or about the sources.
DECLINES_EN = re.compile(
    "|".join(
        (
            rf"\b(?:i|we)(?:'m| am|'re| are)? (?:sorry, )?(?:but )?(?:i |we )?(?:am |are )?(?:really |just |simply |still |also |therefore |currently )?"
            rf"(?:cannot|can't|can not|could not|couldn't|won't|will not|am unable to|are unable to|unable to|not able to|am not able to|not comfortable)\b"
            rf"(?:\W+\w+){{0,4}}?\W+(?:{_ABILITY_EN})",
            r"\bi(?:'m| am) (?:really |very )?(?:sorry|afraid)\b.{0,60}\b(?:not|n't|cannot|unable|no)\b",
            r"\b(?:i|we) (?:do not|don't|did not|didn't) (?:know|have (?:any |enough |access|the |sufficient |specific |that |personal )|find)",
            r"\b(?:i|we) (?:found|have|see) (?:no|nothing)\b",
            r"\bi(?:'m| am) not (?:sure|certain|aware)\b",
            rf"{_SOURCE_EN} {_LACK_EN}",
            rf"\b(?:is|are|was|were) not (?:\w+ )?(?:mentioned|specified|stated|provided|covered|described|included|given|available|found|addressed|discussed|documented|explained)"
            rf" (?:or relevant )?(?:in|by|within|anywhere in) {_SOURCE_EN}",
            rf"\b(?:there is|there's|there are|there was) (?:no|not enough|not any|insufficient|nothing)\b.{{0,60}}\b(?:in|about|on) {_SOURCE_EN}",
            r"\bno (?:\w+ ){0,2}(?:information|mention|answer|details?) (?:is |was |could be |about |on |regarding |for |in |of )",
            r"\b(?:insufficient|not enough|lacks? (?:the |enough )?)\s*(?:information|context|details?|evidence)\b",
            r"\b(?:unanswerable|(?:answer|information|question) (?:could not|cannot|can't) be (?:found|answered|determined))\b|\b(?:cannot|can't) be (?:answered|determined) (?:from|based|with)\b",
            r"\b(?:i|we)(?:'d| would)? need more (?:context|information|details)\b",
            r"\b(?:not|isn't|is n't) (?:directly )?related to the (?:given |provided )?(?:context|question|documents?)",
            r"\bit(?:'s| is| would be) (?:not|never|in)\s?(?:appropriate|ethical|acceptable|recommended|okay)\b",
            r"\bi (?:don't|do not) (?:think it's|think it is|feel) (?:appropriate|comfortable)",
            r"\bas an ai\b.{0,80}\b(?:not|n't|cannot|unable)\b",
        )
    ),
    re.S,
)
DECLINES_ZH = re.compile(
    "|".join(
        (
            "(?<!如果)(?<!若)(?<!当)(?<!时)(?:无法|不能|难以|没法|没办法|未能)(?:直接|准确|具体|为您|为你|给您|给出|向您|对此|从[^，。]{0,12}中|根据[^，。]{0,12}|就此|完全|提供任何)?(?:确切|明确|具体|进一步)?"
            "(?:回答|提供|确定|判断|找到|得出|得知|获取|获得|给出|答复|告知|查到|预测|确认|解答|作答|理解|满足|协助|透露|访问|推断|讨论)",
            "(?:文档|资料|上下文|文章|材料|手册|段落|原文|检索结果|知识库|帮助中心|说明书|片段|来源|(?:提供|给定|给出|上述|已有|现有|检索到|已知)的?(?:文件|信息|内容))[^。！？\n]{0,12}(?:没有|未|并未|不|并没有|均未|无)(?:明确|具体|直接|有)?"
            "(?:提到|提及|说明|包含|涉及|给出|提供|找到|记载|介绍|写明|足够|相关|规定|覆盖|描述|列出|回答|指出|显示)",
            "(?<!如果)(?<!若)(?<!当)(?:没有|未能|并未|并没有|没能?|未)(?:在[^，。]{0,16})?(?:找到|查到|搜到|检索到|查询到|搜索到|发现)",
            "(?:没有|缺乏|缺少|不具备|没)(?:足够|充足|相关|具体|任何|明确|这方面|确切|提供足够|该|此类|更多)(?:的)?[^。，！？]{0,10}(?:信息|资料|内容|数据|依据|说明|文档|记录|上下文)",
            "(?:信息|资料|内容|数据|上下文)不足|不足以回答",
            "(?:我|本助手|作为[^，。]{0,12})[^，。]{0,6}(?:不知道|不清楚|不了解|不确定|无从得知|不太清楚)",
            "(?:^|[。！？，\n])(?:不知道|不清楚|不确定)(?:[，。！？]|$)",
            "(?:很|非常)?(?:抱歉|对不起|遗憾)[^。！？]{0,30}(?:无法|不能|没有|未|不知道|不清楚|不确定|不便|没|不会|不支持)",
            "(?:问题)[^。！？]{0,8}(?:无法回答|没有(?:一个)?(?:明确|确切|实际意义|标准)|无从回答|超出)",
            "(?:无法|不能|不便|拒绝|不会)(?:回答|讨论|提供)",
            "超出[^。！？]{0,10}(?:范围|能力)|(?:需要|请)(?:您|你)?(?:提供)?更多(?:的)?(?:信息|背景|上下文|细节)",
        )
    ),
    re.M,
)
# Lines of courtesy: they neither answer nor decline.
COURTESY = re.compile(
    r"^\W*(?:(?:please (?:contact|consult|refer|check|let|provide|clarify|rephrase|try|feel|note that i|specify|ask)|you (?:may|can|might|could)(?: want to| wish to)? (?:try|contact|consult|refer|check|ask|rephrase|reach)"
    r"|could you|can you|let me know|feel free|is there|i hope|thanks\b|thank you|sorry\b|i apologi[sz]e|unfortunately\W*$|hello[,.! ]|hi[,.! ]|sure[,.!]|of course\W*$|certainly\W*$|great question|good question"
    r"|i'd be happy|i would be happy|happy to help|hope this helps|if you (?:have|need) (?:any|further|more|other|additional)|if you (?:could|can) provide"
    r"|try (?:asking|rephrasing)|it is best to refer|it is recommended to (?:consult|refer|check)|consult the|refer to the (?:owner|user|vehicle|manual|documentation|official)|contact (?:us|our|the|your) (?:support|manufacturer|dealer|team|customer))\b"
    r"|(?:hello|hi|hey|good (?:morning|afternoon|evening)|unfortunately|of course|sure|certainly)\W*$"
    r"|(?:请(?:您|你)?(?:联系|咨询|提供|参考|查阅|重新|检查后|换|稍后|随时|尝试|核实|参阅|告诉我|补充)|(?:您|你)可以(?:尝试|联系|咨询|参考|查阅|重新|问)|建议(?:您|你)?(?:查|咨询|联系|参考|搜索|到|向|去)|如果(?:您|你)(?:有|还有|需要|能|想|可以)"
    r"|如有(?:其他|任何|疑问|需要|更多)|如需(?:更多|进一步|帮助)|希望(?:以上|这|能|对|我)|感谢|谢谢|(?:很|非常)?抱歉|对不起|您好|你好[，！。]|好的[，！。]|不客气|我的目标是|欢迎|还有其他))",
    re.I,
)
TURNS_EN = re.compile(r"\b(?:however|but|nevertheless|that said)\b[\s,]")
TURNS_ZH = re.compile("但是|但|不过|然而|可是|只是")
