r"""Benchmarks: every kind of file, every name of a field, and an error that names what was found instead."""

import csv
import json
import sys

import pytest

from grpo.qwen3.benchmarks import BenchmarkError, download, final_answer, is_math_500, load_benchmark
from grpo.qwen3.problems import TextProblem

# Made up here: no text of a benchmark is part of the course.
ROWS = [
    {"problem": "How much is 1+1?", "answer": "2", "level": 1},
    {"problem": "How much is\n1/2+1/2, in ümlauts?", "answer": "1", "level": 5},
]
PROBLEMS = [TextProblem(row["problem"], row["answer"]) for row in ROWS]


def write(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n\n" for row in rows), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    else:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv", "parquet"])
def test_every_kind_of_file(tmp_path, kind):
    assert load_benchmark(write(tmp_path / f"problems.{kind}", ROWS)) == PROBLEMS


def test_a_list_inside_an_object_and_a_byte_order_mark(tmp_path):
    assert load_benchmark(write(tmp_path / "a.json", {"version": 1, "test": ROWS})) == PROBLEMS
    path = write(tmp_path / "a.csv", ROWS)
    path.write_text("\ufeff" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert load_benchmark(path) == PROBLEMS


def test_a_text_may_hold_any_separator_but_a_line_break(tmp_path):
    text = "one\u2028two\u0085three"
    rows = [{"problem": text, "answer": "2"}, {"problem": "x", "answer": "3"}]
    for kind in ("jsonl", "json"):
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        content = "\r\n".join(lines) if kind == "jsonl" else f"[{','.join(lines)}]"
        (tmp_path / f"a.{kind}").write_bytes(("\ufeff" + content).encode())
        assert load_benchmark(tmp_path / f"a.{kind}") == [TextProblem(text, "2"), TextProblem("x", "3")]


@pytest.mark.parametrize("question", ["problem", "question", "prompt"])
@pytest.mark.parametrize("answer", ["answer", "solution", "truth", "final_answer", "expected_answer", "ground_truth"])
def test_every_name_of_a_field(tmp_path, question, answer):
    path = write(tmp_path / "a.jsonl", [{"id": 7, question: "1+1", answer: "2"}])
    assert load_benchmark(path) == [TextProblem("1+1", "2")]


def test_the_answer_goes_before_the_solution_and_numbers_become_texts(tmp_path):
    rows = [{"solution": r"so \boxed{3}", "problem": "x", "answer": "2"}, {"prompt": "y", "truth": 4, "answer": None}]
    assert load_benchmark(write(tmp_path / "a.jsonl", rows)) == [TextProblem("x", "2"), TextProblem("y", "4")]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"First \boxed{1}, then \boxed{ \frac{1}{2} }.", r"\frac{1}{2}"),
        ("2 and 2 make 4\n#### 4 \n", "4"),
        ("#### 1\n#### 1,000", "1,000"),
        (" 7 ", "7"),
        (r"\boxed{}", r"\boxed{}"),
    ],
)
def test_what_a_solution_comes_to(text, answer):
    assert final_answer(text) == answer


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"q": "1+1", "a": "2"}', "line 1: none of the fields problem, question, prompt; found: q, a"),
        ("a.jsonl", '{"prompt": "1+1", "a": "2"}', "answer, truth, .*solution; found: prompt, a"),
        ("a.jsonl", '\n{"prompt": " ", "answer": "2"}', "line 2: prompt is ' ', not a text"),
        ("a.jsonl", '{"prompt": "x", "answer": ["2"]}', r"answer is \['2'\], not a text"),
        ("a.jsonl", '{"prompt": "x", "answer": true}', "answer is True, not a text"),
        ("a.jsonl", '{"prompt": 5, "answer": "2"}', "prompt is 5, not a text"),
        ("a.jsonl", '{"prompt": "x"', "line 1 is not JSON"),
        ("a.jsonl", "[1]", "line 1 is list, not an object"),
        ("a.jsonl", "\n", "holds no problems"),
        ("a.json", '"x"', "holds str: pass a list"),
        ("a.json", '{"a": [], "b": []}', "an object with the fields a, b"),
        ("a.json", "{}", r"the fields \(none\)"),
        ("a.csv", "a,b\n1,2\n", "row 1: none of the fields problem, question, prompt; found: a, b"),
        ("a.jsonl", '{"prompt": "x", "answer": NaN}', "line 1: answer is nan, not a text"),
        ("a.jsonl", '{"prompt": "x", "answer": -1e999}', "line 1: answer is -inf, not a text"),
        ("a.jsonl", '{"prompt": "x \\ud83d", "answer": "2"}', "line 1: prompt holds half a character"),
        ("a.json", '[{"prompt": "x", "answer": "\\udc00"}]', "entry 1: answer holds half a character"),
        ("a.jsonl", "\n" + "[" * 100_000, "line 2 is not JSON"),
        ("a.json", "[" * 100_000, "a.json is not JSON"),
        (
            "a.jsonl",
            '{"prompt": ' + "[" * 500 + "]" * 500 + ', "answer": "2"}',
            r"line 1: prompt is \[.{1,60}\], not a text",
        ),
        (
            "a.csv",
            "prompt,answer\nx,2\n" + "y" * 5_000_000 + ",3\n",
            "row 2 is not CSV .*field larger.*pass .* as .jsonl",
        ),
        ("a.csv", 'prompt,answer\n"x,2\ny,3\n', "row 1 is not CSV .*unexpected end of data"),
        ("a.txt", "x", "ends in .jsonl, .json, .csv, .parquet"),
    ],
)
def test_what_is_no_benchmark(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BenchmarkError, match=message) as raised:
        load_benchmark(path)
    assert str(path) in str(raised.value)


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BenchmarkError, match="it is not UTF-8 text"):
        load_benchmark(tmp_path / "a.jsonl")
    for source, message in {
        tmp_path: "is a folder",
        tmp_path / "b.jsonl": "there is no file",
        "b.csv": "there is no file b.csv",
        "x" * 5000: "'xxx.{1,70} is no path of a file: File name too long",
        "~nobody-of-this-name/x.json": "is no path of a file: Could not determine home directory",
        "MATH-500": "there is no file MATH-500: check the path, or pass a hub name",
        "folder/b.csv": "there is no file folder/b.csv",  # no data set either: it ends like a file
        "some/folder/MATH-500": "there is no file some/folder/MATH-500",
    }.items():
        with pytest.raises(BenchmarkError, match=message):
            load_benchmark(source)


def test_a_bad_row_of_parquet_is_numbered(tmp_path):
    path = write(tmp_path / "a.parquet", [ROWS[0], {"problem": "How much?", "answer": " "}])
    with pytest.raises(BenchmarkError, match=r"a\.parquet, row 2: answer is ' ', not a text"):
        load_benchmark(path)


def test_a_whole_solution_is_cut_down_to_its_answer(tmp_path):
    rows = [{"problem": "a", "solution": r"So \boxed{7}."}, {"problem": "b", "solution": "3 + 4 = 7\n#### 7"}]
    assert load_benchmark(write(tmp_path / "a.jsonl", rows)) == [TextProblem("a", "7"), TextProblem("b", "7")]


def test_parquet_that_is_none(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(BenchmarkError, match="is no parquet file"):
        load_benchmark(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BenchmarkError, match="needs pyarrow: pip install pyarrow"):
        load_benchmark(tmp_path / "a.parquet")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub whose data sets are files written by the test: name of the file -> rows."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    calls = []

    def make(files):
        for name, rows in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            write(tmp_path / name, rows)

        def snapshot_download(name, **options):
            calls.append((name, options))
            return str(tmp_path)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        return calls

    return make


def test_from_the_hub(hub):
    calls = hub({"test.jsonl": ROWS, "other/validation.jsonl": ROWS[:1]})
    assert load_benchmark("someone/MATH-500") == PROBLEMS
    assert load_benchmark("someone/MATH-500", split="validation") == PROBLEMS[:1]
    assert calls[0][0] == "someone/MATH-500" and calls[0][1]["repo_type"] == "dataset"
    assert calls[0][1]["allow_patterns"] == [f"*test*{kind}" for kind in (".jsonl", ".json", ".csv", ".parquet")]


def test_the_file_that_can_be_read_by_anybody_goes_first(hub):
    hub({"test.jsonl": ROWS, "test.csv": ROWS[:1]})
    assert download("a/b").name == "test.jsonl"


def test_what_the_hub_may_lack(hub):
    hub({"train.jsonl": ROWS})
    with pytest.raises(BenchmarkError, match=r"a/b has no file \*test\*"):
        download("a/b")
    hub({"test-1.jsonl": ROWS, "test-2.jsonl": ROWS})
    with pytest.raises(BenchmarkError, match=r"several files of the split 'test' \(test-1.jsonl, test-2.jsonl\)"):
        download("a/b")


def test_no_hub_and_no_library(monkeypatch):
    huggingface_hub = pytest.importorskip("huggingface_hub")

    def snapshot_download(name, **options):
        raise ConnectionError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    with pytest.raises(BenchmarkError, match=r"Hugging Face hub \(ConnectionError\): check the name and the network"):
        load_benchmark("someone/MATH-500")
    for error in (RuntimeError("a bug"), ValueError("a name"), KeyError("split")):
        monkeypatch.setattr(
            huggingface_hub, "snapshot_download", lambda *a, error=error, **k: (_ for _ in ()).throw(error)
        )
        with pytest.raises(BenchmarkError, match=rf"Hugging Face hub \({type(error).__name__}\): check the name"):
            load_benchmark("someone/MATH-500")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(BenchmarkError, match="need huggingface_hub: pip install huggingface_hub, or pass a file"):
        load_benchmark("someone/MATH-500")


def test_math_500_is_known_by_its_name():
    assert is_math_500("HuggingFaceH4/MATH-500", [0] * 500) and is_math_500("x/math500_test.jsonl", [0] * 40)
    assert not is_math_500("HuggingFaceH4/MATH", [0] * 500) and not is_math_500("math-500", [0] * 501)
