"""Answers of an extractive application over a small product handbook, with known failures and known layers.

The handbook, the questions and the faults are written for this test, in English and Chinese. The judge's
accuracy over the whole set is part of the test, and docs/judging.md quotes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from groundwatch_collector.ragtrace import Citation, Document, Outcome, RagTrace
from groundwatch_scorer import criteria, fault
from groundwatch_scorer.judgement import Criterion
from groundwatch_scorer.local_judge import LocalJudge


@dataclass(frozen=True)
class Topic:
    id: str
    question: str
    title: str
    before: str  # a neighbouring sentence of the passage
    fact: str  # the sentence that answers
    invented: str  # the same with a number that stands nowhere

    @property
    def text(self) -> str:
        return f"{self.title}\n\n{self.before} {self.fact}"

    @property
    def chinese(self) -> bool:
        return self.id.startswith("zh")

    @property
    def document(self) -> Document:
        return Document(self.id, 1, 1.0, self.text, title=self.title)


ENGLISH = (
    Topic(
        "en:attachments",
        "how large may a mail attachment be on the starter plan?",
        "Mail attachments",
        "Attachments are scanned for viruses before delivery.",
        "On the Starter plan a mail attachment may be up to 25 MB.",
        "On the Starter plan a mail attachment may be up to 60 MB.",
    ),
    Topic(
        "en:recycle",
        "how long do removed notes stay in the recycle bin?",
        "Recycle bin",
        "Removed notes go to the recycle bin first.",
        "Removed notes stay in the recycle bin for 45 days and are then erased.",
        "Removed notes stay in the recycle bin for 75 days and are then erased.",
    ),
    Topic(
        "en:sessions",
        "when does an idle session get signed out?",
        "Sessions",
        "Sessions are bound to one device.",
        "An idle session is signed out after 40 minutes.",
        "An idle session is signed out after 90 minutes.",
    ),
    Topic(
        "en:export",
        "how many rows can one CSV export hold?",
        "Exports",
        "Exports run in the background.",
        "A CSV export holds at most 500,000 rows.",
        "A CSV export holds at most 800,000 rows.",
    ),
    Topic(
        "en:discount",
        "is there a discount for schools?",
        "Discounts",
        "Discounts cannot be combined.",
        "Schools receive a discount of 35 percent on every plan.",
        "Schools receive a discount of 55 percent on every plan.",
    ),
    Topic(
        "en:mirror",
        "how often is the read mirror refreshed?",
        "Read mirror",
        "The read mirror serves reports.",
        "The read mirror is refreshed every 12 minutes.",
        "The read mirror is refreshed every 36 minutes.",
    ),
)
CHINESE = (
    Topic(
        "zh:attachments",
        "基础版的邮件附件最大是多少？",
        "邮件附件",
        "附件在投递之前会进行病毒扫描。",
        "基础版的邮件附件最大为 25 MB。",
        "基础版的邮件附件最大为 60 MB。",
    ),
    Topic(
        "zh:recycle",
        "删除的笔记在废纸篓里保留多久？",
        "废纸篓",
        "删除的笔记先进入废纸篓。",
        "笔记在废纸篓里保留45天，之后彻底清除。",
        "笔记在废纸篓里保留75天，之后彻底清除。",
    ),
    Topic(
        "zh:sessions",
        "空闲的会话多久会自动退出登录？",
        "会话",
        "会话只绑定一台设备。",
        "空闲的会话在40分钟后自动退出登录。",
        "空闲的会话在90分钟后自动退出登录。",
    ),
    Topic(
        "zh:export",
        "一次导出表格最多多少行？",
        "导出表格",
        "导出任务在后台运行。",
        "一次导出的表格最多50万行。",
        "一次导出的表格最多80万行。",
    ),
    Topic(
        "zh:discount",
        "学校有折扣吗？",
        "折扣",
        "各种折扣不能叠加。",
        "学校购买任何套餐都享受35%的折扣。",
        "学校购买任何套餐都享受55%的折扣。",
    ),
    Topic(
        "zh:mirror",
        "只读镜像多久刷新一次？",
        "只读镜像",
        "只读镜像供报表使用。",
        "只读镜像每12分钟刷新一次。",
        "只读镜像每36分钟刷新一次。",
    ),
)
UNANSWERABLE = (
    ("who founded the company and in which year?", "公司的创始人是谁，哪一年创立的？"),
    ("does the desktop client play chess?", "桌面客户端能下棋吗？"),
)
REFUSALS = {False: "I could not find this in the documentation.", True: "文档中没有找到相关内容。"}


@dataclass(frozen=True)
class Case:
    name: str
    trace: RagTrace
    layer: str  # "" when the answer is all right


def _trace(name: str, question: str, sent: list[Topic], cut: list[Topic], answer: str, cites: str = "") -> RagTrace:
    everything = [*sent, *cut]
    ranked = tuple(replace(t.document, rank=i + 1) for i, t in enumerate(everything))
    kept = ranked[: len(sent)]
    return RagTrace(
        trace_id=name,
        app="notes",
        version="1",
        started_at=0.0,
        duration_seconds=1.0,
        outcome=Outcome.ANSWERED,
        outcome_source="recorded",
        query=question,
        candidates=ranked[::-1],
        reranked=kept,
        context=kept,
        answer=answer,
        citations=(Citation(cites, "[1]"),) if cites else (),
    )


def _cases() -> Iterator[Case]:
    for topics in (ENGLISH, CHINESE):
        for i, topic in enumerate(topics):
            yield from _cases_of(topic, [topics[(i + k) % len(topics)] for k in range(1, 5)])
    for english, chinese in UNANSWERABLE:
        for question, topics in ((english, ENGLISH), (chinese, CHINESE)):
            refusal = REFUSALS[topics is CHINESE]
            yield Case(
                f"declined: {question}", _trace(question, question, list(topics[:3]), list(topics[3:]), refusal), ""
            )


def _cases_of(topic: Topic, others: list[Topic]) -> Iterator[Case]:
    sent, cut = [topic, *others[:2]], others[2:]
    refusal = REFUSALS[topic.chinese]
    makers: list[tuple[str, str, Callable[[], RagTrace]]] = [
        ("copied", "", lambda: _trace(topic.id, topic.question, sent, cut, f"{topic.fact} [1]", topic.id)),
        (
            "two sentences copied",
            "",
            lambda: _trace(topic.id, topic.question, sent, cut, f"{topic.before} [1] {topic.fact} [1]", topic.id),
        ),
        (
            "number invented",
            "generation",
            lambda: _trace(topic.id, topic.question, sent, cut, f"{topic.invented} [1]", topic.id),
        ),
        ("declined with evidence", "refusal", lambda: _trace(topic.id, topic.question, sent, cut, refusal)),
        (
            "evidence cut, declined",
            "rerank",
            lambda: _trace(topic.id, topic.question, others[:3], [topic, *others[3:]], refusal),
        ),
        (
            "evidence cut, wrong passage",
            "rerank",
            lambda: _trace(
                topic.id, topic.question, others[:3], [topic, *others[3:]], f"{others[0].fact} [1]", others[0].id
            ),
        ),
    ]
    for kind, layer, make in makers:
        yield Case(f"{topic.id}: {kind}", make(), layer)


CASES = list(_cases())
CLEAN = [case for case in CASES if "copied" in case.name]


def _label(trace: RagTrace) -> tuple[str, str]:
    assessment = LocalJudge().assess(trace)
    headline = next(j for j in criteria.judgements(trace, assessment, 0.0) if j.criterion is Criterion.ANY_FAILURE)
    finding = fault.find(trace, assessment)
    return headline.label, "" if finding is None else finding.layer.value


def test_there_are_enough_cases():
    assert len(CASES) >= 60
    assert sum(case.name.startswith("zh") for case in CASES) >= 30


@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.name)
def test_a_copied_answer_is_never_a_failure(case):
    assert _label(case.trace) == ("pass", "")


@pytest.mark.parametrize("case", [c for c in CASES if c.layer == "generation"], ids=lambda case: case.name)
def test_an_invented_number_is_found(case):
    assert _label(case.trace) == ("fail", "generation")


def test_accuracy_sensitivity_and_specificity():
    """The figures of docs/judging.md; printed so that anyone can read them with ``pytest -s``."""
    results = [(case, *_label(case.trace)) for case in CASES]
    bad = [r for r in results if r[0].layer]
    good = [r for r in results if not r[0].layer]
    sensitivity = sum(label == "fail" for _c, label, _l in bad) / len(bad)
    specificity = sum(label == "pass" for _c, label, _l in good) / len(good)
    right_layer = sum(label == "fail" and layer == case.layer for case, label, layer in bad) / len(bad)
    print(
        f"\n{len(CASES)} cases: sensitivity {sensitivity:.3f}, specificity {specificity:.3f}, layer {right_layer:.3f}"
    )
    for case, label, layer in results:
        if (label == "fail") != bool(case.layer) or layer != case.layer:
            print(f"  wrong: {case.name}: {label} {layer or '-'}, true layer {case.layer or '-'}")
    assert sensitivity >= 0.9
    assert specificity >= 0.97
    assert right_layer >= 0.85
