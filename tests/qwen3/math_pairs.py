r"""An edge set for the math verifier: completions and known answers, each with the right verdict and a word why.

The verdicts are a person's: would you give the point? Where the verifier says otherwise, `known` says so and a test
holds it to that, so that the list neither hides a weakness nor goes stale. `python tests/qwen3/math_pairs.py` prints
how far the verifier and the strict string reward agree with the verdicts.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """kind: the row of the table. right: bool, the verdict. known: why the verifier says the opposite, or ""."""

    kind: str
    truth: str
    completion: str
    right: bool
    why: str
    known: str = ""


def _box(answer):
    return rf"So the answer is $\boxed{{{answer}}}$."


def _boxed(kind, *rows):
    return [Pair(kind, truth, _box(answer), *rest) for truth, answer, *rest in rows]


YES, NO = True, False

NUMBERS = _boxed(
    "numbers",
    ("85", "85", YES, "the same text"),
    ("85", "58", NO, "digits swapped"),
    ("85", "-85", NO, "sign"),
    ("-5", "−5", YES, "a typographic minus"),
    ("7", "7.0", YES, "a decimal point changes nothing"),
    ("7", "007", YES, "leading zeros"),
    ("0.5", ".5", YES, "no digit in front of the point"),
    ("5", "5.", YES, "the full stop of the sentence"),
    ("12345", "12,345", YES, "a comma for the thousands"),
    ("12345", r"12{,}345", YES, "the same, typeset"),
    ("12000", r"12\,000", YES, "a thin space for the thousands"),
    ("0", r"12\,000", NO, "not 12 times 000"),
    ("25", "2,5", NO, "two numbers, not one with its comma deleted"),
    ("12", "3 4", NO, "two numbers side by side are no product"),
    ("1000", "10^3", YES, "a power"),
    ("1200", r"1.2 \times 10^{3}", YES, "scientific notation"),
    ("1000", "1e3", YES, "a programmer's notation", "e is read as Euler's number"),
    ("12", "1100_2", YES, "another base, named", "the base of a number is not read"),
    ("1100_2", "1100_3", NO, "another base is another number"),
    ("1100_2", "1100", YES, "the question names the base"),
    (r"\pi", "3.14", NO, "an approximation"),
    (r"6\pi", "6", NO, "the factor pi is missing"),
    (r"\sqrt{50}", r"5\sqrt{2}", YES, "simplified"),
    ("3", r"\log_2 8", YES, "another way to write 3"),
    ("85", "37+48", NO, "the question copied, not worked out", "the value is right, and only values are compared"),
)

FRACTIONS = _boxed(
    "fractions",
    (r"\frac{1}{2}", "1/2", YES, "a slash"),
    (r"\frac{1}{2}", r"\dfrac12", YES, "display style, braces left out"),
    (r"\frac{1}{2}", "0.5", YES, "exact decimal"),
    (r"\frac{1}{2}", r"\frac{2}{4}", YES, "not in lowest terms; the value is right"),
    (r"\frac{1}{2}", r"\frac{2}{1}", NO, "upside down"),
    (r"-\frac{3}{7}", r"\frac{-3}{7}", YES, "the sign in the numerator"),
    (r"-\frac{3}{7}", r"\frac{3}{7}", NO, "sign"),
    (r"\frac{1}{3}", "0.33", NO, "rounded"),
    (r"\frac{1}{3}", r"0.\overline{3}", YES, "a repeating decimal", "repeating decimals are not read"),
    (r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}", YES, "root in the denominator"),
    (r"\binom{5}{2}", r"\binom52", YES, "braces left out", "\\binom is read with braces only"),
)

MIXED = _boxed(
    "mixed numbers",
    (r"\frac{3}{2}", r"1\frac{1}{2}", YES, "one and a half"),
    (r"\frac{3}{2}", "1 1/2", YES, "the same with a slash: not 1 times 1/2"),
    (r"\frac{1}{2}", "1 1/2", NO, "one and a half, not a half"),
    (r"3\frac{1}{4}", r"\frac{13}{4}", YES, "improper fraction"),
    (r"3\frac{1}{4}", r"\frac{3}{4}", NO, "three quarters"),
    (r"-\frac{3}{2}", r"-1\frac{1}{2}", YES, "the sign belongs to all of it"),
)

ALGEBRA = _boxed(
    "expressions",
    ("x^2+2x+1", "(x+1)^2", YES, "factored"),
    ("x^2+2x+1", "x^{2} + 1 + 2x", YES, "another order"),
    ("x^2+2x+1", "x^2+2x-1", NO, "sign"),
    ("5t", "5", NO, "the variable is missing"),
    ("xy", "yx", YES, "factors commute"),
    ("x=3", "3", YES, "the name of the unknown may be left out"),
    ("3", "x = 3", YES, "or stand in front"),
    ("x=3", "y=3", NO, "another unknown"),
    ("y=3x-2", "3x-y=2", YES, "the same line"),
    ("y=3x-2", "y=2x-3", NO, "another line"),
    ("2", r"(1+i)(1-i)", YES, "complex factors", "i is read as a letter"),
    (r"\sin 2x", r"2\sin x\cos x", YES, "an identity"),
    ("A", "a", NO, "two variables of a triangle", "letters lose their case"),
)

TUPLES = _boxed(
    "tuples",
    ("(3,4)", "( 3, 4 )", YES, "spaces"),
    ("(3,4)", r"\left(3,\frac{8}{2}\right)", YES, "the same point"),
    ("(3,4)", "(4,3)", NO, "order matters in a point"),
    ("(1,2,3)", "(3,2,1)", NO, "order matters in three places too"),
    ("(1,2,3)", "(1,2)", NO, "a coordinate is missing"),
    (r"\{3,4\}", "(3,4)", NO, "a point is no set", "intervals, pairs and sets of two are taken for each other"),
)

INTERVALS = _boxed(
    "intervals",
    ("[1,2)", "[1, 2)", YES, "spaces"),
    ("[1,2)", "(1,2]", NO, "the other end is open"),
    ("[1,2)", "[1,2]", NO, "closed on the right"),
    ("(1,2)", "[1,2]", NO, "closed on both sides"),
    (r"(\frac{1}{2},2]", "(0.5,2]", YES, "the ends are numbers like any other"),
    (r"(-\infty,3]", r"x \le 3", YES, "as an inequality"),
    (r"(-\infty,3]", "x < 3", NO, "strict inequality"),
    ("[1,2)", r"x\in[1,2)", YES, "with the name of the unknown"),
    (r"[1,2]\cup[4,5]", r"[4,5]\cup[1,2]", YES, "a union has no order"),
    (r"(1,3)\cup(3,5)", "(1,5)", NO, "3 is left out"),
    (r"(-\infty,\infty)", r"\mathbb{R}", YES, "all real numbers"),
)

SETS = _boxed(
    "sets and lists",
    (r"\{1,2,3\}", r"\{3,1,2\}", YES, "a set has no order"),
    (r"\{1,2,3\}", "1, 2, 3", YES, "a list of the solutions"),
    (r"\{1,2,3\}", r"\{1,2\}", NO, "one is missing"),
    (r"\{1,2\}", r"\{1,2,3\}", NO, "one too many"),
    ("2,3", r"2\text{ and }3", YES, "in words"),
    ("2,3", r"x=2\text{ or }x=3", YES, "as equations"),
    ("-2,2", r"\pm 2", YES, "both signs"),
    ("2", r"\pm 2", NO, "a second solution that is none"),
    ("2", "2,2", NO, "two answers where one was asked", "a list is read as a set"),
    (r"\emptyset", r"\varnothing", YES, "another sign for the empty set"),
    (r"\emptyset", "0", NO, "zero is no set"),
    (r"2+\sqrt{3},2-\sqrt{3}", r"2\pm\sqrt{3}", YES, "both solutions in one"),
)

PERCENT = _boxed(
    "percent",
    (r"25\%", "25%", YES, "the backslash"),
    (r"25\%", "25", YES, "asked for the percentage"),
    (r"25\%", r"\frac{1}{4}", YES, "as a fraction"),
    (r"25\%", r"25\text{ percent}", YES, "in words"),
    (r"25\%", r"2.5\%", NO, "a digit slipped"),
    ("25", r"25\%", NO, "a quarter instead of 25", "a percent sign may always be left out or added"),
)

UNITS = _boxed(
    "units",
    ("18", r"18\text{ cm}", YES, "with its unit"),
    (r"18\text{ cm}", "18", YES, "without it"),
    (r"18\text{ cm}", r"18\,\mathrm{cm}", YES, "set another way"),
    (r"18\text{ cm}", "18 cm", YES, "not set at all"),
    (r"18\text{ cm}", r"18\text{ m}", NO, "another unit"),
    (r"18\text{ cm}^2", r"18\text{ cm}^3", NO, "a volume is no area"),
    (r"1\text{ m}", r"100\text{ cm}", YES, "converted", "units are compared, not converted"),
    (r"\$18", r"18\text{ dollars}", YES, "the sign in words"),
    ("60", r"60^\circ", YES, "degrees"),
    (r"90^\circ", r"\frac{\pi}{2}", YES, "the same angle in radians", "degrees are not converted"),
    ("3", r"3\text{ or more}", NO, "that is no unit"),
    ("12:30", "2:5", NO, "half past twelve is no ratio", "a colon is read as a division"),
)

TEXT = _boxed(
    "text",
    (r"\text{Sunday}", "Sunday", YES, "set or not"),
    (r"\text{Sunday}", r"\textbf{sunday}", YES, "bold and small"),
    (r"\text{Sunday}", r"\text{Monday}", NO, "another day"),
    ("even", "neve", NO, "the same letters are not the same word"),
    (r"\text{no solution}", "No  solution", YES, "case and spaces"),
    (r"\text{(B)}", "B", YES, "the letter of the choice"),
    (r"\text{(B)}", r"\text{(C)}", NO, "another choice"),
    (r"\text{(B)}", r"\text{(B) or (C)}", NO, "two choices"),
    (r"\text{yes}", r"\text{yes, because } x>0", NO, "an answer with its reason is not the answer"),
)

MATRICES = _boxed(
    "matrices",
    (
        r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
        r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}",
        YES,
        "square brackets",
    ),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&3\\2&4\end{pmatrix}", NO, "transposed"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}", NO, "a row is no column"),
    (r"\begin{pmatrix}0.5\\2\end{pmatrix}", r"\begin{pmatrix}\frac{1}{2}\\2\end{pmatrix}", YES, "entry by entry"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\frac12\begin{pmatrix}2&4\\6&8\end{pmatrix}", YES, "a factor in front"),
    (
        r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
        "[[1,2],[3,4]]",
        YES,
        "a programmer's matrix",
        "lists of lists are not read",
    ),
)

BOXES = [
    Pair("boxes", "5", r"A guess is \boxed{3}; corrected: \boxed{5}", YES, "the last box counts"),
    Pair("boxes", "3", r"A guess is \boxed{3}; corrected: \boxed{5}", NO, "the first one does not"),
    Pair("boxes", "8", r"I get \boxed{8}. Again: \boxed{", NO, "the last box is broken, and no earlier one is taken"),
    Pair("boxes", "42", "The answer is 42.", NO, "no box"),
    Pair("boxes", "42", r"The answer is $42$, or \boxed 42", NO, "a box needs braces"),
    Pair("boxes", "5", r"\fbox{5}", NO, "another command"),
    Pair("boxes", "5", r"\boxed{7 \fbox{5}}", NO, "an inner frame does not replace what stands around it"),
    Pair("boxes", "5", r"\boxed{\boxed{5}}", YES, "a box in a box"),
    Pair("boxes", "9", r"<think>perhaps \boxed{9}? let me", NO, "cut off while thinking"),
    Pair("boxes", "9", r"<think>\boxed{3}</think>\boxed{9}", YES, "after the thinking"),
    Pair("boxes", "3", r"<think>\boxed{3}</think>\boxed{9}", NO, "a box in the thinking does not count"),
    Pair("boxes", "5", r"\boxed{$5$}", YES, "dollar signs inside"),
    Pair("boxes", "5", r"\boxed{\(5\)}", YES, "the other signs for mathematics"),
]

MALFORMED = _boxed(
    "malformed",
    ("5", "", NO, "nothing in it"),
    ("5", "   ", NO, "spaces only"),
    (r"\frac{1}{2}", r"\frac{1}{2", NO, "a brace is missing, so the box does not end"),
    ("5", "((((5", NO, "brackets stay open"),
    ("5", r"5\\6", NO, "two lines"),
    (r"\frac{1}{2}", r"nonsense ( \frac{1}{2}", NO, "a right piece in the middle of nonsense"),
    ("3", "final answer: [3] or 4", NO, "not the part that suits"),
    ("3", r"final answer is \(3\) or maybe (4", NO, "nor this one"),
    ("5", r"\text{(B) } 4 \text{ or (C) } 5", NO, "all the choices"),
    ("5", '__import__("os")', NO, "a program is text"),
    ("5", "5\x00\ud800", NO, "bytes that are no text"),
    ("5", r"\frac{5}{0}", NO, "divided by zero"),
    ("0", r"\infty-\infty", NO, "not a number"),
    ("5", "\U0001f600", NO, "a picture"),
)

# Most of these are stopped by the cheap look at the text.
SCREENED = _boxed(
    "pathological",
    ("5", "9^{9^{9}}", NO, "a tower of powers"),
    ("5", "9^{9^{9^{9}}}", NO, "a higher one"),
    ("5", r"{9}^{\left(9^{9}\right)}", NO, "with brackets"),
    ("5", "7**7**7**7", NO, "in a programmer's notation"),
    ("5", "10^{-99999999999}", NO, "the same downwards"),
    ("5", "99999999!", NO, "a large factorial"),
    ("5", "((9!)!)!", NO, "factorials of factorials"),
    ("5", "1+" * 500 + "1", NO, "endless"),
    ("5", "(" * 40 + "5" + ")" * 40, NO, "nested too deeply"),
    ("9^{9^{9}}", "9^{9^{9}}", YES, "the truth itself may be a monster: the texts are equal"),
    ("9^{9^{9}}", "5", NO, "nothing but the same text can be compared with it"),
    ("16", "2^{2^{2}}", YES, "a small tower is a number"),
    ("120", "5!", YES, "and a small factorial"),
)

# These get through and run for minutes or longer, until the worker is killed.
HANGING = _boxed(
    "pathological",
    ("5", r"(x+1)^{5000}", NO, "a power that is multiplied out"),
    ("5", r"\binom{100000000}{10000000}", NO, "a binomial coefficient"),
)

QUICK = [
    *NUMBERS,
    *FRACTIONS,
    *MIXED,
    *ALGEBRA,
    *TUPLES,
    *INTERVALS,
    *SETS,
    *PERCENT,
    *UNITS,
    *TEXT,
    *MATRICES,
    *BOXES,
    *MALFORMED,
    *SCREENED,
]
PAIRS = [*QUICK, *HANGING]

# Answers to one question each; a set of truths is right only if every one of them is worth itself.
TRUTHS = sorted({pair.truth for pair in PAIRS})


def agreement(scores, pairs=PAIRS):
    """How often a reward agrees with the verdicts.

    Args:
        scores: one number per pair, 1.0 for right.
        pairs: list of Pair.

    Returns: dict {kind: (agreeing, all)}, in the order of the pairs, with a last row "all".
    """
    table = {}
    for pair, score in zip(pairs, scores, strict=True):
        for kind in (pair.kind, "all"):
            agreeing, total = table.pop(kind, (0, 0)) if kind == "all" else table.get(kind, (0, 0))
            table[kind] = agreeing + ((score == 1.0) == pair.right), total + 1
    return table


def as_markdown(**tables):
    """The tables of `agreement` side by side, one column each."""
    names = list(tables)
    lines = ["| kind | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for kind in tables[names[0]]:
        cells = ["/".join(map(str, tables[name][kind])) for name in names]
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    from grpo import reward_reasoning
    from grpo.qwen3.math_rewards import MathVerifier

    completions, truths = [pair.completion for pair in PAIRS], [pair.truth for pair in PAIRS]
    with MathVerifier(seconds_per_answer=3.0) as verifier:
        judged = verifier.scores(completions, truths)
    print(
        as_markdown(
            verifier=agreement([verdict.score for verdict in judged]),
            strict=agreement([reward_reasoning(*row) for row in zip(completions, truths, strict=True)]),
        )
    )
    for pair, verdict in zip(PAIRS, judged, strict=True):
        if (verdict.score == 1.0) != pair.right or pair.known:
            given = "right" if verdict.score else f"wrong ({verdict.reason})"
            print(f"{pair.truth!r}, {pair.completion!r}: {given}; {pair.why}; known: {pair.known or 'NO'}")


if __name__ == "__main__":
    main()
