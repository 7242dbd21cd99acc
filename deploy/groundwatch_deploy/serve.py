"""The monitor: receiver, pipeline, scorer, console and metrics, a thread each; all in one process, or some roles."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry
from sqlalchemy import Engine, make_url

from groundwatch_alerts.agreement_metrics import AgreementCollector
from groundwatch_alerts.change_monitor import ChangeMetrics, ChangeMonitor
from groundwatch_alerts.corrected_metrics import CorrectedCollector
from groundwatch_alerts.estimate_metrics import TallyCollector
from groundwatch_alerts.tallies import TABLES
from groundwatch_alerts.version_metrics import VersionCollector
from groundwatch_collector.decision import DecideConfig
from groundwatch_collector.decision_store import Place
from groundwatch_collector.feedback_access import FeedbackAccess
from groundwatch_collector.garbage import look_less_often
from groundwatch_collector.intake_metrics import IntakeMetrics
from groundwatch_collector.kafka_consumer import KafkaPipelines
from groundwatch_collector.log_protocol import AppendLog, DecisionLog
from groundwatch_collector.pipeline import Pipeline
from groundwatch_collector.rate_tables import rates_of
from groundwatch_collector.receiver import asgi_app
from groundwatch_collector.spanlog import LogLocked, SpanLog
from groundwatch_collector.storage import open_engine
from groundwatch_collector.traffic_metrics import TrafficMetrics
from groundwatch_deploy import logs, migrations
from groundwatch_deploy.cli import Misused, emit, installed_version, say
from groundwatch_deploy.config import ConfigError, JudgeConfig, Secret, Secrets, ServerConfig, load_secrets
from groundwatch_deploy.data_trouble import explained
from groundwatch_deploy.grpc_door import grpc_server, require_grpc
from groundwatch_deploy.kafka_spans import KafkaSpans, require_kafka
from groundwatch_deploy.own_judges import own_judges
from groundwatch_deploy.retention import EVERY_POSITION, Retention, RetentionMetrics
from groundwatch_deploy.roles import ALL, Role, roles_of
from groundwatch_deploy.salt_check import refuse_another_salt, refuse_own_salt
from groundwatch_deploy.servers import Bound, HttpServer, bind, is_loopback, metrics_app
from groundwatch_deploy.servers import url_of as _url
from groundwatch_deploy.settings import Settings, load
from groundwatch_deploy.sign_on import require_oidc
from groundwatch_deploy.tls import Tls, tls_of
from groundwatch_review.console import console_app
from groundwatch_review.label_agreement_metrics import LabelAgreementCollector
from groundwatch_review.outbox_metrics import OutboxCollector
from groundwatch_review.redaction import redact_text
from groundwatch_scorer import judgement_store, queue, second_look
from groundwatch_scorer.address_guard import EndpointRefused
from groundwatch_scorer.judged_history import JudgedHistory
from groundwatch_scorer.judgement import Judge
from groundwatch_scorer.local_judge import LocalJudge
from groundwatch_scorer.repeats import RepeatPlan
from groundwatch_scorer.rubric import Rubric, RubricRefused, rubric
from groundwatch_scorer.scorer_metrics import ScorerMetrics, SettleMetrics
from groundwatch_scorer.settle import Settler
from groundwatch_scorer.worker import ScorerWorker, annotator_kind

if TYPE_CHECKING:
    from groundwatch_collector.grpc_intake import GrpcServer

logger = logging.getLogger(__name__)

STOP_SECONDS = 8.0  # what sends SIGTERM often kills after ten


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a process listens; "" for what it does not serve."""

    ingest: str = ""
    console: str = ""
    metrics: str = ""
    grpc: str = ""

    def as_dict(self) -> dict[str, str]:
        return {name: url for name, url in asdict(self).items() if url}


def refuse_open_doors(settings: Settings) -> None:
    """Raise :class:`ConfigError` where a listener could be reached from elsewhere without a key."""
    server = settings.server
    if not is_loopback(server.ingest_host) and not (server.keys or server.tls_client_ca):
        raise ConfigError(
            f"[server] ingest_host: {server.ingest_host} can be reached from other machines, but no ingest key is "
            "configured and no client certificate is asked for; set [server] ingest_keys (`groundwatch key NAME`) or "
            "tls_client_ca, or listen on 127.0.0.1"
        )
    if not is_loopback(server.console_host) and not (server.tls_certificate or settings.console.tls_in_front):
        raise ConfigError(
            f"[server] console_host: {server.console_host} can be reached from other machines, and passwords would "
            "travel to it unencrypted; set tls_certificate and tls_key, or [console] tls_in_front = true where only "
            "a proxy with TLS reaches it, or listen on 127.0.0.1"
        )


def _own_eyes_only(url: str) -> None:
    """Make a new SQLite file readable to its owner alone; SQLite gives its journal the same mode."""
    place = make_url(url)
    if place.get_backend_name() == "sqlite" and place.database:
        os.close(os.open(place.database, os.O_RDWR | os.O_CREAT, 0o600))


class Monitor:
    """Everything that `groundwatch serve` runs. Use as a context manager; `stop` loses nothing."""

    def __init__(
        self, settings: Settings, *, now: Callable[[], float] = time.time, salt: bytes | None = None
    ) -> None:
        """Bind, open and migrate; nothing runs before `start`. *salt*: instead of the deployment's own secret."""
        refuse_open_doors(settings)
        require_grpc(settings.server)
        require_oidc(settings.oidc)
        self._tls = tls_of(settings.server)
        self.roles = roles_of(settings)
        self.settings = settings
        self.now = now
        self.registry = CollectorRegistry()
        server = settings.server
        server.data_directory.mkdir(parents=True, exist_ok=True, mode=0o700)  # it holds what users asked
        if settings.kafka.bootstrap_servers and Role.COLLECTOR in self.roles and salt is None:
            refuse_own_salt(server)
        self.secrets: Secrets = load_secrets(server.data_directory)
        self._salt = salt or self.secrets.sampling_salt.value
        with contextlib.ExitStack() as opened:
            self._open(opened)
            self._close = opened.pop_all()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def _open(self, opened: contextlib.ExitStack) -> None:
        server = self.settings.server
        # Sockets first: a port in use is reported before the log is locked or the database touched.
        self._sockets = {name: opened.enter_context(bind(*door)) for name, door in self._doors().items()}
        if server.grpc_port and Role.COLLECTOR in self.roles:
            bind(server.ingest_host, server.grpc_port, "[server] grpc_port").close()  # gRPC binds it itself
        self._local, self._kafka = self._span_log(opened) if Role.COLLECTOR in self.roles else (None, None)
        _own_eyes_only(server.url)
        self.engine: Engine = open_engine(server.url)
        opened.callback(self.engine.dispose)
        migrations.upgrade(self.engine)
        if Role.COLLECTOR in self.roles:
            refuse_another_salt(self.engine, self._salt, self.settings.decide.salt_version)
        if self._kafka is None and self.roles == ALL:
            # The only scorer of its database: what a killed one had claimed is free again at once.
            queue.release_all(self.engine)
        self.judges = judges(self.settings.judge, self.secrets.llm_api_key, self.engine, self.now())
        self._reader = self._pipeline() if Role.COLLECTOR in self.roles else None
        self.scorer = self._scorer()
        self.settler = self._settler()
        self.retention = self._retention()
        self._servers = self._http_servers()

    def _doors(self) -> dict[str, tuple[str, int, str]]:
        """Host, port and setting of each HTTP listener of this process."""
        server = self.settings.server
        doors = {"metrics": (server.metrics_host, server.metrics_port, "[server] metrics_port")}
        if Role.COLLECTOR in self.roles:
            doors["ingest"] = (server.ingest_host, server.ingest_port, "[server] ingest_port")
        if Role.CONSOLE in self.roles:
            doors["console"] = (server.console_host, server.console_port, "[server] console_port")
        return doors

    @property
    def log(self) -> SpanLog:
        """The span log on this disk."""
        if self._local is None:
            raise ConfigError("[kafka] bootstrap_servers: there is no span log on this disk; it is a Kafka topic")
        return self._local

    @property
    def pipeline(self) -> Pipeline:
        """The one reader of the span log on this disk."""
        if not isinstance(self._reader, Pipeline):
            raise ConfigError("[kafka] bootstrap_servers: each partition has a pipeline of its own")
        return self._reader

    def _span_log(self, opened: contextlib.ExitStack) -> tuple[SpanLog | None, KafkaSpans | None]:
        """The span log of this process: on this disk, or in Kafka."""
        if not self.settings.kafka.bootstrap_servers:
            return opened.enter_context(_open_log(self.settings.server, self.now)), None
        kafka = KafkaSpans(self.settings.kafka, self.settings.limits, self.registry, self.now)
        opened.callback(kafka.close)
        return None, kafka

    def _pipeline(self) -> Pipeline | KafkaPipelines:
        traffic = TrafficMetrics(self.registry)
        if self._kafka is not None:
            return self._kafka.pipelines(self._open_pipeline, self.settings.decide, traffic)
        return self._open_pipeline(self.log, self.settings.decide, traffic, now=self.now)

    def _open_pipeline(
        self,
        log: DecisionLog,
        config: DecideConfig,
        metrics: TrafficMetrics,
        *,
        now: Callable[[], float],
        place: Place | None = None,
    ) -> Pipeline:
        return Pipeline(
            log,
            self.engine,
            config,
            metrics,
            salt=self._salt,
            now=now,
            limits=self.settings.limits,
            place=place,
            judged=self._judged_history(),
            feedback=self.settings.feedback,
        )

    def _judged_history(self) -> JudgedHistory:
        return JudgedHistory(self.engine, self.judges[0].identifier)

    def _scorer(self) -> ScorerWorker:
        return ScorerWorker(
            self.engine,
            self.judges,
            ScorerMetrics(self.registry),
            bucket_seconds=self.settings.decide.bucket_seconds,
            lease_seconds=self.settings.judge.lease_seconds,
            batch=self.settings.judge.batch,
            now=self.now,
            cascade=cascade(self.settings.judge, self.judges, self._salt),
            repeats=repeats(self.settings.judge, self._salt),
            concurrency=self.settings.judge.llm_concurrency if len(self.judges) > 1 else 1,
        )

    def _settler(self) -> Settler:
        return Settler(
            self.engine,
            [(judge.identifier, annotator_kind(judge)) for judge in self.judges],
            SettleMetrics(self.registry),
            horizon_seconds=self.settings.feedback.settle_after_seconds,
            bucket_seconds=self.settings.decide.bucket_seconds,
            now=self.now,
        )

    def _feedback_access(self) -> FeedbackAccess:
        try:
            return FeedbackAccess(self.secrets.feedback_keys, self.settings.feedback.allowed_origins)
        except ValueError as error:
            raise ConfigError(f"[feedback] {error}") from error

    def _retention(self) -> Retention:
        return Retention(
            self.engine,
            self.settings.retention,
            RetentionMetrics(self.registry),
            now=self.now,
            oldest_position=lambda: self._local.start_position if self._local is not None else EVERY_POSITION,
        )

    def _http_servers(self) -> list[HttpServer | GrpcServer]:
        servers: list[HttpServer | GrpcServer] = []
        if Role.COLLECTOR in self.roles:
            servers += self._ingest_doors()
        if Role.CONSOLE in self.roles:
            servers.append(HttpServer(self._console(), self._sockets["console"], "console", self._console_tls()))
        if Role.EXPORTER in self.roles:
            self._export_sums()
        return [*servers, HttpServer(metrics_app(self.registry), self._sockets["metrics"], "metrics")]

    def _ingest_doors(self) -> list[HttpServer | GrpcServer]:
        log: AppendLog = self._kafka.log if self._kafka is not None else self.log
        intake = IntakeMetrics(self.registry)
        ingest = asgi_app(
            log,
            self.settings.limits,
            intake,
            ingest_keys=self.settings.server.keys,
            feedback=self._feedback_access(),
            now=self.now,
        )
        bound = Bound(self.settings.server.max_connections, intake.refused_connections.inc)
        doors: list[HttpServer | GrpcServer] = [
            HttpServer(ingest, self._sockets["ingest"], "ingest", self._tls, bound)
        ]
        if self.settings.server.grpc_port:
            doors.append(grpc_server(ingest.door, self.settings.server, self._tls))
        return doors

    def _console_tls(self) -> Tls | None:
        """The certificate of the ingest doors, where others than this machine reach the console; people have none."""
        if self._tls is None or is_loopback(self.settings.server.console_host):
            return None
        return replace(self._tls, client_ca=None)

    def _console(self) -> Any:
        config = self.settings.console
        if "ingest" in self._sockets:
            config = replace(config, collector_url=_url(self._sockets["ingest"], self._tls))
        return console_app(
            self.engine,
            config,
            now=self.now,
            candidate_key=self.secrets.candidate_key.value,
            candidate_policy=self.settings.candidates,
            labelling=self.settings.labelling,
            objectives=self.settings.objectives,
            alerts=self.settings.alerts,
            audit_key=self.secrets.audit_key,
            registry=self.registry,
            login_always=not is_loopback(self.settings.server.console_host),
            oidc=self.settings.oidc,
            oidc_secret=self.secrets.oidc_client_secret.value.decode(),
        )

    def _export_sums(self) -> None:
        """The sums of the whole deployment, from the database: one process gives them to Prometheus."""
        names = [judge.identifier for judge in self.judges]
        chances = self._reader.chances if self._reader is not None else self._planned_chances()
        for family in TABLES:
            self.registry.register(TallyCollector(self.engine, rates=chances, judges=names, family=family))
        self.registry.register(VersionCollector(self.engine, names[0]))
        self.registry.register(CorrectedCollector(self.engine, names, now=self.now))
        self.registry.register(AgreementCollector(self.engine, names, now=self.now))
        self.registry.register(LabelAgreementCollector(self.engine))
        self.registry.register(OutboxCollector(self.engine))

    def _changes(self) -> ChangeMonitor:
        return ChangeMonitor(
            self.engine,
            self.judges[0].identifier,
            self.settings.objectives,
            self.settings.alerts,
            ChangeMetrics(self.registry),
            now=self.now,
        )

    def _planned_chances(self) -> Callable[[], Mapping[str, float]]:
        """Stratum to chance, in force now. A process that decides nothing reads the planned table, or plans it."""
        decide = self.settings.decide
        judged, feedback = self._judged_history(), self.settings.feedback
        rates = rates_of(decide.planned(), decide.rate_table(), self.engine, judged, feedback)

        def chances() -> Mapping[str, float]:
            rates.prepare(self.now())
            return rates.current.rates if rates.current is not None else {}

        return chances

    def start(self) -> Addresses:
        """Start every thread; return once all listeners answer."""
        for loop, name in self._loops():
            thread = threading.Thread(target=loop, args=(self._stop,), name=f"groundwatch-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()
        for server in self._servers:
            server.start()
        return Addresses(**{server.name: server.url for server in self._servers})

    def _loops(self) -> list[tuple[Callable[[threading.Event], None], str]]:
        loops: list[tuple[Callable[[threading.Event], None], str]] = []
        if self._reader is not None:
            loops.append((self._reader.run, "pipeline"))
        if Role.SCORER in self.roles:
            loops.append((self.scorer.run, "scorer"))
        if Role.EXPORTER in self.roles:
            loops += [(self.settler.run, "settler"), (self.retention.run, "retention")]
            loops.append((self._changes().run, "changes"))
        return loops

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop taking requests, finish what is in hand and close. Undecided traces stay in the span log.

        What is still at work after about *seconds*, for example because the database is locked, is left behind: it
        is a transaction that did not happen, and the next start does it again.
        """
        deadline = time.monotonic() + seconds
        # All at once: what the loops have in hand ends while the servers answer their last requests.
        self._stop.set()
        for server in self._servers:
            server.ask_to_stop()
        for server in self._servers:
            server.stop(max(0.0, deadline - time.monotonic()))
        for thread in self._threads:
            thread.join(max(0.1, deadline - time.monotonic()))
        late = [thread.name for thread in self._threads if thread.is_alive()]
        if late:
            logger.warning("stopped without waiting longer for %s", ", ".join(late))
        self._close.close()

    def __enter__(self) -> Monitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.stop()


def _warn_of_plain_keys(server: ServerConfig) -> None:
    if not is_loopback(server.ingest_host) and not server.tls_certificate:
        say(
            f"groundwatch: [server] ingest_host: ingest keys and traces travel to {server.ingest_host} unencrypted; "
            "set tls_certificate and tls_key, or put a proxy with TLS in front"
        )


def _open_log(server: ServerConfig, now: Callable[[], float]) -> SpanLog:
    try:
        return SpanLog(
            server.data_directory / "spanlog",
            segment_bytes=server.log_segment_bytes,
            group_seconds=server.log_group_seconds,
            max_bytes=server.log_max_bytes,
            max_age_seconds=server.log_max_age_seconds,
            now=now,
        )
    except LogLocked as error:
        raise ConfigError(f"[server] data_directory: {error}") from error


def judges(config: JudgeConfig, api_key: Secret, engine: Engine, now: float) -> list[Judge]:
    """The local judge, and the configured model beside it, each with a series of its own."""
    chosen: list[Judge] = [LocalJudge()]
    if config.llm_model:
        # What was spent since midnight counts against the day's budget, whatever was restarted in between.
        midnight = now - now % 86_400
        chosen.append(llm_judge(config, api_key, lambda name: judgement_store.spent_usd(engine, name, midnight)))
    return [*chosen, *own_judges(config.own_judges, [judge.identifier for judge in chosen])]


def cascade(config: JudgeConfig, judges: Sequence[Judge], salt: bytes) -> second_look.Cascade | None:
    """Who reads again, and with which chances; None where every judge reads everything.

    Raises :class:`ConfigError` for a chance that is none.
    """
    if not config.cascade:
        return None
    try:
        model = second_look.Chances(config.cascade_unsure_chance, config.cascade_sure_chance)
        people = second_look.Chances(config.people_unsure_chance, config.people_sure_chance)
    except ValueError as error:
        raise ConfigError(f"[judge] cascade: {error}") from error
    return second_look.Cascade(
        second_look.Choice(judges[1].identifier, model, salt) if len(judges) > 1 else None,
        second_look.Choice(second_look.PEOPLE, people, salt),
    )


def repeats(config: JudgeConfig, salt: bytes) -> RepeatPlan | None:
    """How much each judge reads twice; None for nothing."""
    return RepeatPlan(config.repeat_share, config.repeats_per_day, salt) if config.repeat_share else None


def llm_judge(config: JudgeConfig, api_key: Secret, spent_usd: Callable[[str], float] = lambda _name: 0.0) -> Judge:
    """The configured model as a judge. Personal data and secrets are redacted before anything is sent.

    *spent_usd* tells what a judge of this name has cost today. Raises :class:`ConfigError` where the endpoint or the
    rubric may not be used.
    """
    # Half a second of imports that most deployments never need.
    from groundwatch_scorer.llm_budget import Price  # noqa: PLC0415
    from groundwatch_scorer.llm_endpoint import open_client  # noqa: PLC0415
    from groundwatch_scorer.llm_judge import LlmJudge, identifier_of  # noqa: PLC0415

    instructions = rubric_of(config)
    try:
        client = open_client(
            config.llm_base_url,
            api_key.value.decode(),
            timeout_seconds=config.llm_timeout_seconds,
            allow_private=config.llm_allow_private_network,
        )
    except EndpointRefused as error:
        raise ConfigError(f"[judge] llm_base_url: {error}") from error
    price = Price(config.llm_input_usd_per_million_tokens, config.llm_output_usd_per_million_tokens)
    known = min(price.input_usd_per_million, price.output_usd_per_million) >= 0
    return LlmJudge(
        client,
        config.llm_model,
        instructions=instructions,
        timeout_seconds=config.llm_timeout_seconds,
        redact=None if config.llm_send_unredacted else redacted,
        prices={config.llm_model: price} if known else None,
        max_usd_per_day=config.llm_budget_usd_per_day or None,
        already_spent_usd=spent_usd(identifier_of(config.llm_model, instructions.version)),
        requests_per_minute=config.llm_requests_per_minute,
        tokens_per_minute=config.llm_tokens_per_minute,
        retries=config.llm_retries,
        cache_replies=config.llm_cache_replies,
    )


def rubric_of(config: JudgeConfig) -> Rubric:
    """What the configured model is told. Raises :class:`ConfigError` where the file of `llm_rubric` is none."""
    try:
        return rubric(config.llm_rubric)
    except RubricRefused as error:
        raise ConfigError(f"[judge] llm_rubric: {error}") from error


def redacted(text: str) -> str:
    """What a judge outside this process may read of *text*. Raises ``ValueError`` where redaction cannot be sure."""
    result = redact_text(text)
    if result.status == "BLOCKED":
        raise ValueError("the text could not be redacted")
    return result.text


def judging_everything(settings: Settings) -> Settings:
    """For a first look and for recordings: every stratum has the chance 1, and no queue is too long."""
    everything = dict.fromkeys(settings.decide.rates, 1.0)
    return replace(settings, decide=replace(settings.decide, rates=everything, judge_queue_limit=0))


def command(arguments: argparse.Namespace) -> int:
    """`groundwatch serve`: run until SIGINT or SIGTERM; SIGHUP starts it anew with what is configured by then."""
    try:
        settings = _settings(arguments)
        if arguments.check:
            _check(settings)
            emit({"configuration": "ok"}, arguments.json, lambda: "the configuration is good")
            return 0
        logs.configure(settings.server.log_level)
        look_less_often()
        with explained(settings.server):
            monitor = Monitor(settings)
    except ConfigError as error:
        raise Misused(str(error)) from error
    signals = _signals()
    _warn_of_plain_keys(settings.server)
    with monitor:
        addresses = monitor.start()
        emit(addresses.as_dict(), arguments.json, lambda: _welcome(addresses.as_dict(), settings))
        logger.info("started: %s", _at_work(monitor))
        reload = _until_told(signals, arguments)
        began = time.monotonic()
    logger.info("stopped after %.1f s; what was acknowledged is kept", time.monotonic() - began)
    if reload and not _told_to_stop(signals):
        # The mask outlives the call: one more SIGHUP waits until it is heard again, instead of killing who starts.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 (this very command, again)
    return 0


def _settings(arguments: argparse.Namespace) -> Settings:
    settings = load(
        arguments.config,
        data_directory=arguments.data_dir,
        ingest_port=arguments.ingest_port,
        console_port=arguments.console_port,
        metrics_port=arguments.metrics_port,
        roles=tuple(arguments.role) or None,
    )
    return judging_everything(settings) if arguments.judge_everything else settings


def _check(settings: Settings) -> None:
    """Raise :class:`ConfigError` for what can be known to be wrong without opening anything."""
    refuse_open_doors(settings)
    roles_of(settings)
    require_grpc(settings.server)
    require_oidc(settings.oidc)
    tls_of(settings.server)
    rubric_of(settings.judge)
    chosen: list[Judge] = [LocalJudge()]
    if settings.judge.llm_model:
        chosen.append(llm_judge(settings.judge, Secret(b"not asked")))
    own_judges(settings.judge.own_judges, [judge.identifier for judge in chosen])
    cascade(settings.judge, chosen, b"")
    if settings.kafka.bootstrap_servers:
        require_kafka()


def _signals() -> SimpleQueue[int]:
    """Where the signals to stop or to reload arrive."""
    # A handler runs between any two lines of the main thread, which may hold the lock of an event. This has none.
    arrived: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup: it is to be ignored
            signal.signal(number, lambda number, _frame: arrived.put(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    return arrived


def _until_told(signals: SimpleQueue[int], arguments: argparse.Namespace) -> bool:
    """Wait; True when the process is to start anew. A configuration that cannot be used changes nothing."""
    while (number := signals.get()) == signal.SIGHUP and not _in_a_terminal():
        try:
            _check(_settings(arguments))
        except ConfigError as error:
            logger.error("the new configuration cannot be used, the old one stays: %s", error)
            continue
        except Exception:  # whatever a file or a judge of one's own brings about: what runs goes on
            logger.exception("the new configuration cannot be checked, the old one stays")
            continue
        logger.info("reloading: the configuration is good")
        return True
    say(f"groundwatch: stopping ({signal.Signals(number).name})")
    return False


def _in_a_terminal() -> bool:
    """Whether SIGHUP says that the terminal was closed. A daemon may have no stdin at all."""
    return sys.stdin is not None and sys.stdin.isatty()


def _told_to_stop(signals: SimpleQueue[int]) -> bool:
    """Whether somebody wanted an end while the process finished what was in hand, to start anew."""
    while not signals.empty():
        if (number := signals.get()) != signal.SIGHUP:
            say(f"groundwatch: stopping ({signal.Signals(number).name})")
            return True
    return False


def _at_work(monitor: Monitor) -> str:
    """What an operator looks for first in the log of a process."""
    server = monitor.settings.server
    judged_by = ", ".join(judge.identifier for judge in monitor.judges)
    roles = ", ".join(sorted(role.value for role in monitor.roles))
    database = make_url(server.url).render_as_string(hide_password=True)
    return f"groundwatch {installed_version()}, process {os.getpid()}, {roles}; {database}; judged by {judged_by}"


def _welcome(addresses: Mapping[str, str], settings: Settings) -> str:
    ingest = addresses.get("ingest")
    lines = {
        "ingest": f"send OTLP/HTTP to  {ingest}   (OTEL_EXPORTER_OTLP_ENDPOINT={ingest})",
        "grpc": f"send OTLP/gRPC to  {addresses.get('grpc')}",
        "console": f"console            {addresses.get('console')}",
        "metrics": f"Prometheus metrics {addresses.get('metrics')}/metrics",
    }
    shown = [f"  {line}" for name, line in lines.items() if name in addresses]
    first = f"Groundwatch is running; data in {settings.server.data_directory}"
    return "\n".join([first, *shown, "stop with Ctrl-C"])
