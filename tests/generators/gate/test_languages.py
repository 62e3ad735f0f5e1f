"""The gate in prompts that are not English: good rewritings pass, bad ones are found, what is unjudged is said."""

# ruff: noqa: RUF001 - Chinese has its own punctuation

import pytest

from lhaw_record.generators.gate import Scene, judged_words, problems_of, unjudged_by
from lhaw_record.generators.protocol import Removal, Rewriting
from lhaw_record.recorder.events import GateJudgement
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment
from lhaw_record.runners.base.text.language import language_of

PROMPTS = {
    "de": (
        "Erstelle aus der Datei umsatz_2024.csv einen Bericht für die Region Nord. "
        "Runde alle Beträge auf zwei Nachkommastellen und speichere das Ergebnis als bericht.xlsx. "
        "Schicke ihn bis zum 14. "
        "März an Frau Weber."
    ),
    "fr": (
        "Crée un rapport à partir du fichier ventes_2024.csv pour la région Nord. "
        "Arrondis tous les montants à deux décimales et enregistre le résultat sous rapport.xlsx. "
        "Envoie-le avant le 14 mars à Mme Durand."
    ),
    "es": (
        "Crea un informe a partir del archivo ventas_2024.csv para la región Norte. "
        "Redondea todos los importes a dos decimales y guarda el resultado como informe.xlsx. "
        "Envíalo antes del 14 de marzo a la señora García."
    ),
    "zh": (
        "请根据 sales_2024.csv 为华东地区制作一份报告。"
        "所有金额保留两位小数，结果保存为 report.xlsx。"
        "请在3月14日之前发给王丽。"
    ),
}
SEGMENTS = {  # by language and value: the words around it, and a question
    ("de", "Region Nord"): ("die Region Nord", "Für welche Region soll der Bericht sein?"),
    ("de", "zwei Nachkommastellen"): ("auf zwei Nachkommastellen", "Wie genau sollen die Beträge gerundet werden?"),
    ("de", "bericht.xlsx"): ("als bericht.xlsx", "Wie soll die Datei heißen?"),
    ("de", "Frau Weber"): ("an Frau Weber", "An wen soll ich den Bericht schicken?"),
    ("fr", "région Nord"): ("la région Nord", "Pour quelle zone dois-je faire le rapport ?"),
    ("fr", "rapport.xlsx"): ("sous rapport.xlsx", "Sous quel nom dois-je enregistrer le résultat ?"),
    ("fr", "Mme Durand"): ("à Mme Durand", "À qui dois-je l'envoyer ?"),
    ("es", "región Norte"): ("la región Norte", "¿Para qué zona es el informe?"),
    ("es", "informe.xlsx"): ("como informe.xlsx", "¿Con qué nombre debo guardar el resultado?"),
    ("es", "14 de marzo"): ("antes del 14 de marzo", "¿Para cuándo lo necesitas?"),
    ("zh", "华东地区"): ("为华东地区", "报告是给哪个地区的？"),
    ("zh", "两位小数"): ("保留两位小数", "金额要保留几位小数？"),
    ("zh", "3月14日之前"): ("在3月14日之前", "什么时候之前要？"),
    ("zh", "王丽"): ("发给王丽", "报告发给谁？"),
}
REWRITINGS = [  # language, value, severity, what was written, what became of it, whether it is good
    ("de", "Region Nord", "vaguify", "für die Region Nord", "für eine bestimmte Region", True),
    ("de", "Region Nord", "delete", " für die Region Nord", "", True),
    ("de", "Region Nord", "genericize", "für die Region Nord", "für das Gebiet", True),
    ("de", "Region Nord", "vaguify", "die Region Nord", "den Norden und runde auf 7 Stellen", False),
    ("de", "Region Nord", "vaguify", "für die Region Nord", "für den Vertrieb in der Region Nord", False),
    (
        "de",
        "zwei Nachkommastellen",
        "vaguify",
        "Runde alle Beträge auf zwei Nachkommastellen",
        "Runde alle Beträge sinnvoll",
        True,
    ),
    ("de", "zwei Nachkommastellen", "delete", " auf zwei Nachkommastellen", "", True),
    (
        "de",
        "zwei Nachkommastellen",
        "vaguify",
        "auf zwei Nachkommastellen und speichere das Ergebnis als bericht.xlsx",
        "passend",
        False,
    ),
    ("de", "bericht.xlsx", "vaguify", "als bericht.xlsx", "unter einem passenden Namen", True),
    ("de", "bericht.xlsx", "delete", " als bericht.xlsx", "", True),
    ("de", "bericht.xlsx", "vaguify", "als bericht.xlsx", "als Tabelle", True),
    ("de", "bericht.xlsx", "vaguify", "als bericht.xlsx", "als bericht.xlsx oder ähnlich", False),
    ("de", "Frau Weber", "vaguify", "an Frau Weber", "an die Kollegin", True),
    ("de", "Frau Weber", "genericize", "an Frau Weber", "an die Leiterin", True),
    ("de", "Frau Weber", "vaguify", "an Frau Weber", "an Frau W. (Weber)", False),
    ("fr", "région Nord", "vaguify", "pour la région Nord", "pour une zone précise", True),
    ("fr", "région Nord", "delete", " pour la région Nord", "", True),
    ("fr", "région Nord", "vaguify", "pour la région Nord", "pour la région Nord ou Sud", False),
    ("fr", "rapport.xlsx", "vaguify", "sous rapport.xlsx", "sous un nom approprié", True),
    ("fr", "rapport.xlsx", "delete", " sous rapport.xlsx", "", True),
    ("fr", "Mme Durand", "vaguify", "à Mme Durand", "à la personne concernée", True),
    ("fr", "Mme Durand", "vaguify", "à Mme Durand", "à la directrice, Claire Martin", False),
    ("es", "región Norte", "vaguify", "para la región Norte", "para la zona de siempre", True),
    ("es", "región Norte", "delete", " para la región Norte", "", True),
    ("es", "región Norte", "vaguify", "para la región Norte", "para la región Norte y otras", False),
    ("es", "informe.xlsx", "vaguify", "como informe.xlsx", "con un nombre adecuado", True),
    ("es", "14 de marzo", "vaguify", "antes del 14 de marzo", "pronto", True),
    ("es", "14 de marzo", "delete", " antes del 14 de marzo", "", True),
    ("es", "14 de marzo", "vaguify", "antes del 14 de marzo", "antes del día 15", False),
    ("zh", "华东地区", "vaguify", "为华东地区", "为相关地区", True),
    ("zh", "华东地区", "delete", "为华东地区", "", True),
    ("zh", "华东地区", "vaguify", "为华东地区", "为华东地区等地", False),
    ("zh", "华东地区", "vaguify", "为华东地区制作一份报告。所有金额保留两位小数，", "为相关地区制作一份报告。", False),
    ("zh", "两位小数", "vaguify", "保留两位小数", "保留适当的小数", True),
    ("zh", "3月14日之前", "vaguify", "在3月14日之前", "尽快", True),
    ("zh", "3月14日之前", "vaguify", "在3月14日之前", "在3月20日之前", False),
    ("zh", "王丽", "vaguify", "发给王丽", "发给同事", True),
]
NOT_BY_RULES = ("nothing_else_changed", "refers_to_something")


def findings(prompt, rewritten, value, question, severity="vaguify", text=None):
    """What the gate finds in a rewriting."""
    segment = Segment(segment_id="S1", value=value, text=text, dimension="constraint", subdimension="scope")
    asked = ExpectedQuestions(segment_id="S1", questions=(question,))
    rewriting = Rewriting(prompt=rewritten, expected_questions=(asked,), failure_mode="")
    return problems_of(prompt, rewriting, Removal(segments=(segment,), severity=severity), Scene())


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("language", "value", "severity", "old", "new", "is_good"), REWRITINGS)
def test_good_rewritings_pass_and_bad_ones_do_not(language, value, severity, old, new, is_good):
    """Nouns with capital letters are no names, a Chinese sentence is not one word, "an" is no English article."""
    prompt, (text, question) = PROMPTS[language], SEGMENTS[language, value]
    assert language_of(prompt) == language
    assert prompt.count(old) == 1
    found = findings(prompt, prompt.replace(old, new), value, question, severity, text)
    assert (not found) == is_good, found


@pytest.mark.parametrize("language", PROMPTS)
def test_what_rules_know_of_english_only_is_unjudged_elsewhere(language):
    """The language is said, and an editor who read the text judged these points, too."""
    prompt = PROMPTS[language]
    assert set(NOT_BY_RULES) <= set(unjudged_by(None, "vaguify", prompt))
    assert "the rules that hold in " in judged_words(None, "vaguify", prompt)
    read = GateJudgement(judge="m", judge_digest="d", judged=("reads_naturally", "several_readings", "questions_fit"))
    assert unjudged_by(read, "delete", prompt) == ("recoverable_by_paraphrase", "recoverable_from_files")
    assert unjudged_by(None, "decoy", prompt) == ("reads_naturally",)
    assert not set(NOT_BY_RULES) & set(unjudged_by(None, "vaguify", "Sort the rows by date and save them."))


def test_the_characters_of_a_chinese_prompt_count():
    """It is not one word or two, of which none would be left."""
    original = "把表格按日期排序，然后存为report.xlsx"
    assert findings(original, "把表格按日期排序，然后存起来", "report.xlsx", "存成什么文件名？") == ()
    found = findings(original * 3, "排序", "report.xlsx", "存成什么文件名？")
    assert "is_still_a_task" in [each.check for each in found]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", "en"),
        ("Max retries?", "en"),
        ("x = f(y)", "en"),
        ("Translate the Chinese title (\u7b80\u4f53\u4e2d\u6587) of the file into English please.", "en"),
        ("Which of the meetings with Herr von der Leyen is it?", "en"),
        ("Welche Datei ist gemeint?", "de"),
        ("In welchem Format soll ich die Datei speichern?", "de"),
        ("Quel fichier dois-je utiliser ?", "fr"),
        ("¿Qué archivo debo usar?", "es"),
        ("Quale file devo usare per il rapporto?", "it"),
        ("Welk bestand moet ik gebruiken?", "nl"),
        ("遇到哪些状态码时才应该重试?", "zh"),
        ("请读取 sales_report_2024.csv 并写入 totals.xlsx", "zh"),
        ("どのファイルを使いますか", "ja"),
        ("어떤 파일을 사용할까요?", "ko"),
        ("\u041a\u0430\u043a\u043e\u0439 \u0444\u0430\u0439\u043b?", "ru"),
        ("\u03c0\u03bf\u03b9\u03bf", "el"),
        ("\u13a0\u13b3\u13a9", "und"),
        ("a" * 20_000, "en"),
    ],
)
def test_the_language_of_a_text(text, language):
    """By its script, or its common words; English where too little is said."""
    assert language_of(text) == language


PROMPT = (
    "Prepare the weekly overview of all open orders. Post a note in #oncall when it is done. "
    "Flag each row below 15 percent. Save it as sales_by_region.csv and send it to Dana Whitfield."
)


@pytest.mark.parametrize(
    ("value", "old", "bad", "good", "check"),
    [
        ("#oncall", "in #oncall", "in the on-call channel", "in the usual channel", "value_is_gone"),
        ("sales_by_region.csv", "as sales_by_region.csv", "as the sales-by-region file", "as usual", "value_is_gone"),
        ("Dana Whitfield", "Prepare the", "As an experienced analyst, prepare the", None, "adds_nothing"),
        ("Dana Whitfield", "to Dana Whitfield.", "to a colleague. You are a careful assistant.", None, "adds_nothing"),
        ("15 percent", "15 percent", "a certain percentage", "what we agreed on", "no_placeholder"),
        ("15 percent", "Flag each row below 15 percent. ", "", None, "severities_differ"),
    ],
)
def test_five_kinds_of_bad_rewriting_are_found_without_a_judge(value, old, bad, good, check):
    """The good one beside it is not."""
    question = "Which one do you want?"
    assert check in [each.check for each in findings(PROMPT, PROMPT.replace(old, bad), value, question)]
    if good is not None:
        assert findings(PROMPT, PROMPT.replace(old, good), value, question) == ()


def test_a_deleted_sentence_is_a_deletion():
    """Under that severity nothing is to be left of it."""
    left = PROMPT.replace("Flag each row below 15 percent. ", "")
    found = findings(PROMPT, left, "15 percent", "Which one do you want?", "delete")
    assert "severities_differ" not in [each.check for each in found]
