"""A real Apache Kafka broker (KRaft, one node) on free loopback ports, from the jars of Maven Central.

`python tests/harness/kafka_broker.py fetch` brings the jars once, into GROUNDWATCH_KAFKA_HOME or
~/.cache/groundwatch-kafka; Java 17 and, for the fetch, Maven must be there. `... run` starts one and waits.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

VERSION = "4.1.0"
_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>kafka-broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
  </dependency></dependencies>
</project>
"""
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},{secure}CONTROLLER://127.0.0.1:{controller}
advertised.listeners={secure}PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL
listener.name.secure.sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config={module} required user_{user}="{password}";
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={keystore}
log.dirs={data}
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
log.retention.check.interval.ms=500
log.initial.task.delay.ms=100
"""


_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USER, PASSWORD = "watcher", "hidden-word"  # of the secure listener


def home() -> Path:
    given = os.environ.get("GROUNDWATCH_KAFKA_HOME")
    return Path(given) if given else Path.home() / ".cache" / "groundwatch-kafka"


def libraries() -> Path:
    return home() / VERSION / "libs"


def is_fetched() -> bool:
    return (libraries() / f"kafka_2.13-{VERSION}.jar").is_file()


def is_available() -> bool:
    """Whether a broker can be had here: Java, and the jars or the means to bring them."""
    return bool(shutil.which("java")) and (is_fetched() or bool(shutil.which("mvn")))


def fetch() -> Path:
    """The folder of jars; brought by Maven the first time. Safe for several test processes at once."""
    if is_fetched():
        return libraries()
    folder = home() / VERSION
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_fetched():
            (folder / "pom.xml").write_text(_POM)
            half = folder / "half"
            shutil.rmtree(half, ignore_errors=True)
            command = ["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies"]
            subprocess.run([*command, "-DincludeScope=runtime", f"-DoutputDirectory={half}"], check=True)
            shutil.rmtree(libraries(), ignore_errors=True)
            half.rename(libraries())
    return libraries()


class Broker:
    """One broker with a folder of its own. `stop` and `kill` keep the data; `start` begins with it again."""

    def __init__(self, *, secure: bool = False) -> None:
        """*secure*: with a second listener, SASL_SSL with PLAIN, and a certificate of its own (`certificate`)."""
        self.folder = Path(tempfile.mkdtemp(prefix="groundwatch-kafka-"))
        self.port, self.secure_port, self._controller = _free_port(), _free_port(), _free_port()
        self._classes = f"{fetch()}/*"
        self._properties = self.folder / "server.properties"
        self.certificate = self.folder / "certificate.pem"
        text = _PROPERTIES.format(
            port=self.port,
            secure=f"SECURE://127.0.0.1:{self.secure_port}," if secure else "",
            controller=self._controller,
            data=self.folder / "data",
            module=_MODULE,
            user=USER,
            password=PASSWORD,
            keystore=self._keystore() if secure else "none",
        )
        self._properties.write_text(text)
        self._process: subprocess.Popen[bytes] | None = None
        self._java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", str(self._properties))

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_command(self._classes), "kafka.Kafka", str(self._properties)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + 180  # a loaded machine takes its time to start a JVM
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.kill()
                raise RuntimeError(f"Kafka did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs or None)])
        finally:
            admin.close()

    def delete_topic(self, name: str) -> None:
        from kafka.admin import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        try:
            admin.delete_topics([name])
            while name in admin.list_topics():  # it is deleted a moment later
                time.sleep(0.1)
        finally:
            admin.close()

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(how)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _keystore(self) -> Path:
        key, store = self.folder / "key.pem", self.folder / "keystore.pem"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(self.certificate)]
        subprocess.run(command, check=True, capture_output=True)
        store.write_text(key.read_text() + self.certificate.read_text())
        return store

    def _answers(self) -> bool:
        from kafka import KafkaConsumer
        from kafka.errors import KafkaError

        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", self.port)):
                return False
        try:
            KafkaConsumer(bootstrap_servers=self.bootstrap, bootstrap_timeout_ms=3000).close()
        except KafkaError:
            return False
        return True

    def _java(self, *arguments: str) -> None:
        done = subprocess.run([*_command(self._classes), *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{arguments[0]} failed: {done.stderr[-2000:]}")


@contextmanager
def running(*, secure: bool = False) -> Iterator[Broker]:
    """A broker from its start until it is removed with its data."""
    broker = Broker(secure=secure)
    try:
        broker.start()
        yield broker
    finally:
        broker.remove()


def _command(classes: str) -> list[str]:
    small = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return ["java", *small, "-cp", classes]


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("fetch", "run"))
    parser.add_argument("--topic", default="groundwatch-spans")
    parser.add_argument("--partitions", type=int, default=4)
    options = parser.parse_args()
    print(fetch(), file=sys.stderr)
    if options.what == "run":
        with running() as broker:
            broker.create_topic(options.topic, options.partitions)
            print(broker.bootstrap, flush=True)
            signal.pause()


if __name__ == "__main__":
    main()
