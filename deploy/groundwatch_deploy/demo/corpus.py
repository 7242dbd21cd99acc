"""The documents: Python's own documentation as it stands on this machine, and a bilingual product manual."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources

PASSAGE_MIN_CHARS = 400
PASSAGE_MAX_CHARS = 900


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrievable piece of text. The title is the first line of the text, so that readers see it too."""

    id: str  # "manual-en:upload-limits", "pydoc:with#2", "stdlib:json.dumps"
    title: str
    text: str


TOPICS = (
    "assert", "async", "booleans", "break", "class", "comparisons", "context-managers", "continue", "del", "dict",
    "else", "exceptions", "for", "formatstrings", "function", "global", "if", "import", "integers", "lambda", "lists",
    "nonlocal", "operator-summary", "pass", "raise", "return", "sequence-types", "slicings", "string-methods",
    "truth", "try", "typesmapping", "typesseq", "typesseq-mutable", "while", "with", "yield",
)  # fmt: skip
"""Topics of ``pydoc_data.topics`` that exist in every Python from 3.11 to 3.14."""

OBJECTS = {
    "builtins": "abs all any bin chr dict divmod enumerate eval exec filter float getattr hasattr hash hex id input "
    "int isinstance issubclass iter len map max min next open ord pow print range repr reversed round set setattr "
    "slice sorted str sum super tuple type vars zip",
    "str": "capitalize casefold center count encode endswith find format index isdigit isnumeric join ljust lower "
    "partition replace rfind rsplit split splitlines startswith strip swapcase title zfill",
    "list": "append clear copy count extend index insert pop remove reverse sort",
    "dict": "fromkeys get items keys pop popitem setdefault update values",
    "set": "add difference discard intersection issubset pop remove symmetric_difference union update",
    "bytes": "decode fromhex hex",
    "json": "dump dumps load loads",
    "os": "chmod cpu_count getenv getpid kill link listdir makedirs mkdir remove removedirs rename replace rmdir "
    "scandir stat symlink urandom walk",
    "os.path": "abspath basename commonprefix dirname exists expanduser getsize isdir isfile join normpath realpath "
    "split splitext",
    "pathlib.Path": "exists glob iterdir mkdir read_text rename resolve rglob touch unlink write_text",
    "shutil": "copy copy2 copyfile copytree disk_usage make_archive move rmtree unpack_archive which",
    "tempfile": "NamedTemporaryFile TemporaryDirectory TemporaryFile gettempdir mkdtemp mkstemp",
    "subprocess": "Popen call check_call check_output run",
    "threading": "Barrier Condition Event Lock RLock Semaphore Thread Timer",
    "time": "ctime gmtime localtime monotonic perf_counter process_time sleep strftime strptime time",
    "datetime.datetime": "fromisoformat fromtimestamp isoformat now replace strptime timestamp",
    "random": "choice choices gauss randint random randrange sample seed shuffle uniform",
    "math": "ceil comb copysign dist factorial floor fmod fsum gcd hypot isclose isnan log log2 perm prod sqrt trunc",
    "statistics": "correlation fmean geometric_mean mean median mode multimode pstdev quantiles stdev variance",
    "re": "compile escape findall finditer fullmatch match search split sub subn",
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "itertools": "accumulate chain combinations compress count cycle dropwhile groupby islice pairwise permutations "
    "product repeat starmap takewhile tee zip_longest",
    "functools": "cached_property lru_cache partial reduce singledispatch total_ordering wraps",
    "csv": "DictReader DictWriter reader Sniffer writer",
    "hashlib": "blake2b file_digest md5 sha256",
    "secrets": "choice compare_digest randbelow token_bytes token_hex token_urlsafe",
    "logging": "basicConfig getLogger captureWarnings disable",
    "urllib.parse": "parse_qs quote unquote urlencode urljoin urlparse urlsplit",
    "socket": "create_connection create_server getaddrinfo gethostbyname socket",
    "zipfile": "ZipFile is_zipfile",
    "gzip": "compress decompress open",
    "base64": "b64decode b64encode urlsafe_b64encode b32encode b16encode b85encode",
    "heapq": "heapify heappop heappush heapreplace merge nlargest nsmallest",
    "bisect": "bisect_left bisect_right insort_left insort_right",
    "copy": "copy deepcopy",
    "textwrap": "dedent fill indent shorten wrap",
    "uuid": "UUID uuid1 uuid3 uuid4 uuid5 getnode",
    "decimal": "Decimal getcontext localcontext",
    "fractions": "Fraction",
    "glob": "escape glob iglob",
    "fnmatch": "filter fnmatch fnmatchcase translate",
    "contextlib": "closing contextmanager nullcontext redirect_stdout suppress ExitStack",
    "dataclasses": "asdict astuple dataclass field replace",
    "enum": "Enum Flag auto unique",
    "asyncio": "Semaphore Queue create_task gather run sleep to_thread wait wait_for shield",
    "queue": "LifoQueue PriorityQueue Queue",
    "concurrent.futures": "as_completed wait ThreadPoolExecutor ProcessPoolExecutor",
    "unicodedata": "category name normalize",
    "difflib": "SequenceMatcher get_close_matches unified_diff",
    "getpass": "getpass getuser",
    "platform": "machine node platform python_version system",
    "signal": "alarm signal",
    "struct": "calcsize pack unpack",
    "pickle": "dump dumps load loads",
    "calendar": "isleap leapdays monthrange timegm",
    "traceback": "format_exc print_exc print_exception",
    "weakref": "finalize ref",
    "inspect": "getdoc getsource isfunction signature",
    "ipaddress": "ip_address ip_network",
    "webbrowser": "open",
    "zlib": "adler32 compress crc32",
    "smtplib": "SMTP",
}  # fmt: skip
"""Where to find the docstrings: a module or a class, and the names in it. A name that is missing is passed over."""


_FOOTNOTE = re.compile(r" \[\d+\](?=\W)")  # they look like our citations and lead nowhere
_HEADING = re.compile(r"^([^\n]+)\n[*=\-~^]{3,}\n", re.M)


def load() -> tuple[Passage, ...]:
    """Every passage, in a stable order. Ids are unique."""
    passages = [*_manual("en"), *_manual("zh"), *_topics(), *_docstrings()]
    return tuple({passage.id: passage for passage in passages}.values())


def _manual(language: str) -> Iterator[Passage]:
    source = resources.files(__package__).joinpath("manual", f"tideline.{language}.md").read_text(encoding="utf-8")
    for title, slug, body in re.findall(r"^## (.+?) \{#([\w-]+)\}\n+((?:(?!^## ).*\n?)+)", source, re.M):
        yield Passage(f"manual-{language}:{slug}", title, f"{title}\n\n{body.strip()}")


def _topics() -> Iterator[Passage]:
    topics = importlib.import_module("pydoc_data.topics").topics
    for name in TOPICS:
        text = _FOOTNOTE.sub("", topics.get(name, ""))
        heading = _HEADING.match(text)
        title = f"Python: {heading[1] if heading else name}"
        yield from _number(f"pydoc:{name}", title, _paragraphs(_HEADING.sub("", text)))


def _docstrings() -> Iterator[Passage]:
    for place, names in OBJECTS.items():
        owner = _resolve(place)
        for name in names.split():
            documented = getattr(owner, name, None)
            text = inspect.getdoc(documented) if documented is not None else None
            if text:
                title = name if place == "builtins" else f"{place}.{name}"
                yield from _number(f"stdlib:{title}", title, _paragraphs(text))


def _resolve(place: str) -> object:
    """The module or class called *place*; built-in types are found without a module."""
    builtin = getattr(importlib.import_module("builtins"), place, None)
    if builtin is not None:
        return builtin
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError:
        module, _, attribute = place.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


def _paragraphs(text: str) -> list[str]:
    """Paragraphs of *text*; wrapped prose becomes one line, indented and listed lines keep their breaks."""
    found = (part.strip("\n") for part in re.split(r"\n[ \t]*\n", text))
    return [piece for part in found if part.strip() for piece in _split_long(_unwrap(part))]


def _split_long(paragraph: str) -> Iterator[str]:
    """Tables and listings can be very long: cut them between lines."""
    piece = ""
    for line in paragraph.splitlines():
        if piece and len(piece) + len(line) >= PASSAGE_MAX_CHARS:
            yield piece
            piece = ""
        piece = f"{piece}\n{line}" if piece else line
    yield piece


def _unwrap(paragraph: str) -> str:
    lines = paragraph.split("\n")
    prose = len({len(line) - len(line.lstrip()) for line in lines}) == 1
    listed = any(re.match(r"\s*(>>>|[*+|-]\s|\w+\s+::=)", line) for line in lines)
    return " ".join(line.strip() for line in lines) if prose and not listed else paragraph


def _number(prefix: str, title: str, paragraphs: Iterable[str]) -> Iterator[Passage]:
    """Group *paragraphs* to passages of a readable size; the first keeps the bare prefix as its id."""
    for number, body in enumerate(_grouped(paragraphs), start=1):
        yield Passage(prefix if number == 1 else f"{prefix}#{number}", title, f"{title}\n\n{body}")


def _grouped(paragraphs: Iterable[str]) -> Iterator[str]:
    group: list[str] = []
    for paragraph in paragraphs:
        size = sum(map(len, group))
        if group and (size >= PASSAGE_MIN_CHARS or size + len(paragraph) > PASSAGE_MAX_CHARS):
            yield "\n\n".join(group)
            group = []
        group.append(paragraph)
    if group:
        yield "\n\n".join(group)
