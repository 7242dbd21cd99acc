"""The console in a real browser: keys, refresh, light and dark, wide and narrow, and not one request elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import browsing
import orjson
import pytest
from sqlalchemy import Engine, select

from groundwatch_alerts.objectives import Objective
from groundwatch_collector import storage
from groundwatch_collector.ragtrace import Document
from groundwatch_collector.tables import traffic_tally
from groundwatch_review import review_queue
from groundwatch_review.candidates import CandidatePolicy
from groundwatch_review.console import ConsoleConfig, console_app
from groundwatch_review.console.formats import iso
from groundwatch_review.rereading import RereadingConfig
from groundwatch_review.tables import candidates, reviews
from groundwatch_scorer import second_look
from groundwatch_scorer.judgement import (
    AnnotatorKind,
    Assessment,
    ClaimVerdict,
    Evidence,
    FaultFinding,
    FaultLayer,
    Verdict,
)
from groundwatch_scorer.tables import judgements

pytestmark = [pytest.mark.service("chromium"), pytest.mark.timeout(120)]

NOW = 1_790_000_000.0


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """One kind is enough: what differs between databases shows in the pages without a browser."""
    return f"sqlite:///{tmp_path / 'groundwatch.db'}"


@dataclass
class Watch:
    """A page with everything noted that should not happen."""

    page: Any
    base: str
    trouble: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def go(self, path: str) -> Any:
        return self.page.goto(self.base + path)

    def dialog(self, dialog: Any) -> None:
        self.trouble.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def expect_clean(self) -> None:
        assert self.trouble == []
        assert [url for url in self.requests if not url.startswith((self.base, "data:"))] == []


OBJECTIVES = (
    Objective("good-answers", "any_failure", 0.05, window="24h"),
    Objective("faithful", "faithfulness", 0.5, window="24h"),
    Objective("cited", "citations", 0.1, window="1h"),
    Objective("quick", "latency", 4.0),
)


@pytest.fixture(scope="module")  # while it is open, its thread has a running loop, which asyncio.run refuses
def browser() -> Iterator[Any]:
    with browsing.chromium() as opened:
        yield opened


@pytest.fixture
def served(engine: Engine) -> Iterator[str]:
    """Address of a console over this test's database, served for real."""
    app = console_app(
        engine,
        ConsoleConfig(refresh_seconds=0.3),
        now=lambda: NOW,
        candidate_key=b"k" * 32,
        candidate_policy=CandidatePolicy(consent="NOT_PERSONAL", license="CC0-1.0"),
        objectives=OBJECTIVES,
        labelling=RereadingConfig(second_reader_share=0.0, repeat_share=0.0),
    )
    with browsing.serving(app) as address:
        yield address


@pytest.fixture
def open_page(browser: Any, served: str) -> Iterator[Callable[..., Watch]]:
    contexts = []

    def open_one(width: int = 1280, height: int = 860, **options: Any) -> Watch:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        watch = Watch(page, served)
        page.on("console", lambda m: watch.trouble.append(f"{m.type}: {m.text}") if m.type != "log" else None)
        page.on("pageerror", lambda error: watch.trouble.append(str(error)))
        page.on("dialog", watch.dialog)
        page.on("request", lambda request: watch.requests.append(request.url))
        return watch

    yield open_one
    for context in contexts:
        context.close()


def shoot(watch: Watch, folder: Path, name: str) -> None:
    """Keep a screenshot for a person to look at: GROUNDWATCH_SCREENSHOTS names a folder that outlives the test."""
    target = Path(os.environ.get("GROUNDWATCH_SCREENSHOTS", folder)) / f"{name}.png"
    watch.page.screenshot(path=target, full_page=True)
    assert target.stat().st_size > 5000


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_their_screen_and_stay_on_this_origin(open_page, world, tmp_path, scheme, width):
    watch = open_page(width, color_scheme=scheme)
    paths = {
        "overview": "/",
        "traces": "/traces?verdict=fail",
        "trace": f"/traces/{world.failed[0]}",
        "review": "/review",
        "labels": "/labels",
        "candidates": "/candidates",
        "versions": "/versions",
        "alerts": "/objectives",
        "compare": f"/compare?a={world.sampled[0]}&b={world.failed[-1]}",
    }
    for name, path in paths.items():
        assert watch.go(path).status == 200
        assert watch.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} overflows"
        shoot(watch, tmp_path, f"{name}-{width}-{scheme}")
    watch.expect_clean()


def test_the_queue_is_worked_by_keyboard_alone(open_page, engine, world):
    with storage.reader(engine).connect() as connection:
        ids = [item.trace_id for item in review_queue.read(connection, "manual-assistant", 3)]
    watch = open_page()
    page = watch.page
    watch.go("/")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.wait_for_url("**/review*")
    page.keyboard.press("j")
    page.wait_for_url(f"**item={ids[1]}*")
    page.keyboard.press("k")
    page.wait_for_url(f"**item={ids[0]}*")
    page.keyboard.press("4")
    assert page.locator("input[name=fault_layer]:checked").input_value() == "generation"
    page.keyboard.press("n")
    page.keyboard.type("cx42? invented")  # letters that are keys elsewhere are text here
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    page.wait_for_url("**done=confirm*")
    page.keyboard.press("x")
    page.wait_for_url("**done=reject*")
    with engine.connect() as connection:
        found = {row.trace_id: row for row in connection.execute(select(reviews))}
        assert connection.execute(select(candidates.c.trace_id)).scalars().all() == [ids[0]]
    confirmed, rejected = found[ids[0]], found[ids[1]]
    assert (confirmed.decision, confirmed.fault_layer, confirmed.note) == (
        "confirmed",
        "generation",
        "cx42? invented",
    )
    assert rejected.decision == "rejected"
    assert confirmed.reviewer == rejected.reviewer
    watch.expect_clean()


SELECT = """([words, from]) => {
  const root = document.querySelector(`[data-document=${from}]`);
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node; (node = walker.nextNode());) for (let i = 0; i < node.length; i++) found.push([node, i]);
  const text = found.map(([node, i]) => node.data[i]).join("");
  const at = text.indexOf(words);
  const last = found[at + words.length - 1];
  getSelection().setBaseAndExtent(...found[at], last[0], last[1] + 1);
}"""


def test_selected_words_are_kept_by_their_place_in_the_text(open_page, engine, add_trace):
    """Behind boxes for deceiving characters, marks and letters outside the basic plane, as Python counts them."""
    text = "  \U0001f4ce Files up to 50\u202e MB \u200bcan be uploaded. 团队版\U0001f600可上传。"
    document = Document("upload", 1, 0.5, text)
    claim = ClaimVerdict("Up to 50 MB.", 0, 12, Verdict.SUPPORTED, 0.1, "", (Evidence("upload", 4, 15, text[4:15]),))
    judged = Assessment("m", AnnotatorKind.CODE, (claim,))
    finding = FaultFinding(FaultLayer.GENERATION, 0.9, "wrong", ())
    trace_id = add_trace(judged=judged, finding=finding, candidates=(document,), context=(document,))
    watch = open_page()
    page = watch.page
    watch.go("/review")
    page.keyboard.press("e")
    assert page.locator("#pick-trouble").inner_text() == "Select words in a document first."
    for words in ("to 50RLO MB ZWSPcan", "团队版\U0001f600可"):
        page.evaluate(SELECT, [words, "document-1"])
        page.keyboard.press("e")
    page.evaluate(SELECT, ["Files", "document-1"])
    page.locator("#pick").click()
    assert page.locator("#picked mark").all_inner_texts() == [
        "to 50[U+202E] MB [U+200B]can",
        "团队版\U0001f600可",
        "Files",
    ]
    page.locator("#picked button").nth(2).click()
    page.keyboard.press("v")
    page.keyboard.press("ArrowRight")
    assert page.locator("input[name=claim_1]:checked").input_value() == "CONTRADICTED"
    page.keyboard.press("w")
    page.keyboard.type("50 MB, cx.")
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    page.wait_for_url("**done=confirm*")
    with engine.connect() as connection:
        said = select(judgements.c.detail).where(judgements.c.annotator_kind == "HUMAN")
        detail = orjson.loads(connection.execute(said.order_by(judgements.c.id.desc())).scalars().first() or "{}")
    kept = [(piece["start"], piece["end"], piece["quote"]) for piece in detail["expectation"]["evidence"]]
    assert [text[start:end] for start, end, _quote in kept] == [quote for _start, _end, quote in kept]
    assert [quote for *_place, quote in kept] == ["to 50\u202e MB \u200bcan", "团队版\U0001f600可"]
    assert detail["claims"][0]["verdict"] == "CONTRADICTED"
    assert detail["expectation"]["reference_answer"] == "50 MB, cx."
    page.goto(f"{watch.base}/traces/{trace_id}")
    assert page.locator("#picked mark").count() == 2
    watch.expect_clean()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_a_blind_item_is_decided_right_below_what_was_sent(open_page, engine, add_trace, tmp_path, width, scheme):
    claims = (
        ClaimVerdict("Up to 70 MB.", 0, 12, Verdict.CONTRADICTED, 0.9, "number_conflict"),
        ClaimVerdict("It is free.", 13, 24, Verdict.NOT_MENTIONED, 0.8, "low_overlap"),
    )
    document = Document("upload", 1, 0.5, "Files up to 50 MB can be uploaded.", title="Upload limits")
    judged = Assessment("m", AnnotatorKind.CODE, claims)
    finding = FaultFinding(FaultLayer.RERANK, 0.9, "wrong", ())
    trace_id = add_trace(
        judged=judged, finding=finding, answer="Up to 70 MB. It is free.", candidates=(document,), context=(document,)
    )
    with engine.begin() as connection:
        second_look.keep(connection, trace_id, [second_look.SecondLook(second_look.PEOPLE, 0.1, True, unsure=False)])
    watch = open_page(width, color_scheme=scheme, has_touch=width < 700)
    page = watch.page
    watch.go("/review")
    read, decide = page.locator(".documents"), page.locator(".decide")
    assert read.bounding_box()["y"] > page.locator(".beside").bounding_box()["y"]
    if width < 700:
        assert 0 < decide.bounding_box()["y"] - read.bounding_box()["y"] - read.bounding_box()["height"] < 60
        assert page.locator(".expectation").bounding_box()["y"] > decide.bounding_box()["y"]
    shoot(watch, tmp_path, f"blind-{width}-{scheme}")
    assert page.locator("input[name=fault_layer]:checked").count() == 0
    page.keyboard.press("c")
    assert page.locator("input[name=fault_layer]").first.evaluate("field => field.matches(':invalid')"), "no guess"
    page.keyboard.press("2")
    page.keyboard.press("c")
    page.wait_for_url("**done=confirm*")
    page.get_by_role("link", name="See that trace with all verdicts").click()
    assert page.locator("text=contradicted").first.is_visible()
    watch.expect_clean()


def test_a_newcomer_gets_from_the_alert_to_an_exported_case_by_clicking_alone(open_page, engine, world, tmp_path):
    """No key, no address typed: every next step is a button or a link on the page that is open."""
    watch = open_page(accept_downloads=True)
    page = watch.page
    watch.go("/traces?app=manual-assistant&verdict=fail&sort=worst&window=24h")  # as the alert links it
    for step in range(5):  # a fifth of the families is held out of the download by design
        page.locator("[data-row]").nth(step).click()
        shoot(watch, tmp_path, f"path-1-trace-{step}")
        page.get_by_role("button", name="Confirm failure").click()
        page.wait_for_url("**/candidates/rc_*")
        shoot(watch, tmp_path, f"path-2-candidate-{step}")
        page.locator("input[name=read]").check()
        page.get_by_role("button", name="Confirm").first.click()
        page.wait_for_load_state()
        page.locator(".notice a").first.click()  # "it leaves with the next export", or "all candidates"
        page.wait_for_url("**/candidates?*")
        export = page.get_by_role("button", name="Export")
        if export.is_enabled():
            break
        page.get_by_role("link", name="Traces").click()
    shoot(watch, tmp_path, "path-3-candidates")
    with page.expect_download() as download:
        export.click()
    (line,) = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert orjson.loads(line)["review"]["status"] == "REVIEWED"
    watch.expect_clean()


def test_a_candidate_is_not_confirmed_without_the_tick_and_the_page_says_so_itself(open_page, engine, world):
    watch = open_page()
    page = watch.page
    watch.go("/review")
    page.keyboard.press("c")
    page.wait_for_url("**done=confirm*")
    page.keyboard.press("o")
    page.wait_for_url("**/candidates/rc_*")
    page.keyboard.press("c")
    assert page.locator("input[name=read]").evaluate("box => box.matches(':invalid')")
    assert page.locator("input[name=read]").evaluate("box => document.activeElement === box")  # asked for it
    page.keyboard.press("t")
    with page.expect_navigation():
        page.keyboard.press("c")
    assert page.locator("input[name=read]").is_checked()
    page.keyboard.press("t")
    with page.expect_navigation():
        page.keyboard.press("x")  # rejecting needs no tick
    with engine.connect() as connection:
        (row,) = connection.execute(select(candidates))
    assert '"REJECTED"' in row.document
    watch.expect_clean()


def test_help_lists_the_keys_and_closes_with_escape(open_page, world):
    watch = open_page()
    watch.go("/review")
    watch.page.keyboard.press("?")
    assert watch.page.locator("#help").is_visible()
    watch.page.keyboard.press("Escape")
    assert not watch.page.locator("#help").is_visible()
    watch.expect_clean()


def test_rows_of_the_list_are_walked_and_opened_by_keyboard(open_page, world):
    watch = open_page()
    watch.go("/traces?verdict=fail")
    for key in "jjk":
        watch.page.keyboard.press(key)
    first = watch.page.locator("[data-row]").first
    assert first.evaluate("e => e === document.activeElement")
    outline = first.evaluate("e => getComputedStyle(e).outlineStyle + getComputedStyle(e).outlineWidth")
    assert outline == "solid3px"
    watch.page.keyboard.press("Enter")
    watch.page.wait_for_url("**/traces/0*")
    watch.expect_clean()


def test_a_stretch_of_the_chart_leads_to_its_worst_traces(open_page, world):
    watch = open_page()
    watch.go("/")
    steps = watch.page.locator(".chart-wide .hover")
    first, last = steps.nth(2), steps.nth(5)
    wanted = {"since": first.get_attribute("data-since"), "until": last.get_attribute("data-until")}
    start, end = first.bounding_box(), last.bounding_box()
    mouse = watch.page.mouse
    mouse.move(end["x"] + 5, end["y"] + 60)  # backwards is the same stretch
    mouse.down()
    mouse.move(start["x"] + 5, start["y"] + 60, steps=4)
    watch.page.wait_for_timeout(700)  # it would have fetched itself anew, and the chart with it
    assert watch.page.locator(".brushed").count() == 4
    watch.page.keyboard.press("Escape")
    assert watch.page.locator(".brushed").count() == 0
    mouse.up()
    assert watch.page.url == watch.base + "/"
    mouse.move(start["x"] + 5, start["y"] + 60)
    mouse.down()
    mouse.move(end["x"] + 5, end["y"] + 60, steps=4)
    mouse.up()
    watch.page.wait_for_url("**/traces?**")
    asked = parse_qs(urlsplit(watch.page.url).query)
    assert (asked["since"], asked["until"], asked["sort"]) == ([wanted["since"]], [wanted["until"]], ["worst"])
    rows = watch.page.locator(".trace-list tbody tr")
    assert rows.first.locator(".chip-fail").count() == 1
    times = [t.get_attribute("datetime") for t in rows.locator("time").all()]
    assert watch.page.locator("text=From ").inner_text()
    assert min(times) >= iso(float(wanted["since"])) and max(times) <= iso(float(wanted["until"]))
    watch.expect_clean()


def test_a_view_is_saved_and_opened_by_keyboard_alone(open_page, add_trace):
    add_trace(version="1.5.0")
    watch = open_page()
    watch.go("/traces?version=1.5.0&sort=worst")
    watch.page.keyboard.press("s")
    watch.page.keyboard.type("new version")
    watch.page.keyboard.press("Enter")
    watch.page.wait_for_url("**/traces?app=**")
    watch.go("/traces")
    watch.page.keyboard.press("1")
    watch.page.wait_for_url("**version=1.5.0&sort=worst")
    assert watch.page.locator(".view-chip[aria-current]").inner_text().startswith("new version")
    watch.expect_clean()


def test_the_overview_follows_new_traffic_and_says_when_it_cannot(open_page, engine, world, served):
    watch = open_page()
    watch.go("/")
    before = watch.page.locator("#judged").inner_text()
    row = {"bucket_start": int(NOW) - 60, "app": "manual-assistant", "version": "1.5.0", "stratum": "normal_b0"}
    with engine.begin() as connection:
        storage.add_to_tally(
            connection, traffic_tally, [{**row, "outcome": "answered", "traces": 1000.0, "received": 1000}]
        )
    watch.page.wait_for_function("old => document.querySelector('#judged').innerText !== old", arg=before)
    assert "3," in watch.page.locator("#judged").inner_text()
    watch.expect_clean()
    watch.page.route("**/*", lambda route: route.abort())
    watch.page.wait_for_function(
        "() => document.querySelector('#freshness').innerText.includes('Not refreshed since')"
    )


def test_pause_holds_the_page_still(open_page, engine, world):
    watch = open_page()
    watch.go("/")
    watch.page.keyboard.press("p")
    assert watch.page.locator("[data-pause]").get_attribute("aria-pressed") == "true"
    assert "Paused at" in watch.page.locator("#freshness").inner_text()


def test_the_console_works_without_script(open_page, engine, world):
    watch = open_page(java_script_enabled=False)
    watch.go("/")
    watch.page.select_option("select[name=version]", "1.4.2")
    watch.page.get_by_role("button", name="Show").click()
    watch.page.wait_for_url("**version=1.4.2*")
    watch.go("/review")
    watch.page.get_by_role("button", name="Reject").click()
    watch.page.wait_for_url("**done=reject*")
    with engine.connect() as connection:
        assert len(connection.execute(select(reviews)).all()) == 1


PAYLOADS = (
    "<script>alert(1)</script>",
    '"><svg onload=alert(2)>',
    "<img src=https://evil.example/x.png onerror=alert(3)>",
    "![x](https://evil.example/pixel.png)",
    '<base href="https://evil.example/">',
    "<a href='javascript:alert(4)'>x</a>",
    "pay \u202eeruces\u202c now",
)


def test_hostile_text_runs_nothing_and_fetches_nothing(open_page, add_trace, tmp_path):
    payload = " ".join(PAYLOADS)
    document = Document(payload, 1, 1.0, payload, title=payload)
    evidence = (Evidence(payload, 0, 20, payload[:20]),)
    claim = ClaimVerdict(payload, 0, len(payload), Verdict.CONTRADICTED, 0.9, payload, evidence)
    judged = Assessment("m", AnnotatorKind.LLM, (claim,), explanation=payload)
    trace_id = add_trace(query=payload, answer=payload, candidates=(document,), context=(document,), judged=judged)
    watch = open_page()
    for path in ("/traces", f"/traces/{trace_id}"):
        watch.go(path)
        assert watch.page.locator("body").inner_text().count("<script>alert(1)</script>") >= 1
    box = watch.page.locator(".answer .ctrl").first
    assert (box.inner_text(), box.is_visible()) == ("RLO", True)
    shoot(watch, tmp_path, "hostile")
    watch.expect_clean()


def test_text_and_its_ground_have_enough_contrast(open_page, world):
    for scheme in ("light", "dark"):
        watch = open_page(color_scheme=scheme)
        for path in (
            "/",
            f"/traces/{world.failed[0]}",
            "/review",
            "/labels",
            "/versions",
            "/objectives",
            "/compare?a={0}&b={0}".format(world.failed[0]),
        ):
            watch.go(path)
            assert watch.page.evaluate(CONTRAST) == [], (scheme, path)


CONTRAST = """() => {
  const rgb = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0.99) return c;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  for (const e of document.querySelectorAll("main *, header *, footer *")) {
    if (e.closest("svg, option, :disabled, .off, .unseen, .no-js") || !e.checkVisibility()) continue;
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.add(`${e.className || e.tagName}: ${ratio.toFixed(2)}`);
  }
  return [...found];
}"""
