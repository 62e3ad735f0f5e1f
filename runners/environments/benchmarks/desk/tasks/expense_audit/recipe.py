"""expense-audit: load ledger, staff and limits, select expenses, apply both rules, sort, write table and summary."""

from lhaw_record.runners.environments.benchmarks.desk.recipe import (
    RecipeParameter,
    among,
    file_for,
    file_with,
    looked_up,
    recipe_of,
    seen,
)

_CODE = r"\b([A-Z]{1,3}-?\d+)\b"


RECIPE = recipe_of(
    __file__,
    recognise=r"expense audit",
    deliverables=("report_file", "summary_file"),
    ledger_file=RecipeParameter(
        question="Which of the two ledgers should I audit?",
        patterns=(r"use the ledger `([^`]+)`",),
        shape=r"([\w./-]+\.csv)\b",
        guesses=seen("list the files", r"\./([\w-]+\.csv)\b", "ledger.csv"),
        shown_by="list the files",
    ),
    amount_column=RecipeParameter(
        question="Which column of the ledger has the amounts that count?",
        patterns=(r"amounts? (?:is|are) in (?:the column )?`?(\w+_eur)\b",),
        shape=r"\b([a-z]\w*_eur)\b",
        guesses=seen("look at the ledger", r"\b([a-z]\w*_eur)\b", "amount_eur"),
        usual="amount_eur",
        shown_by="look at the ledger",
    ),
    period=RecipeParameter(
        question="Which dates does the audit cover, from which day to which day?",
        patterns=(r"dated from (\d{4}-\d\d-\d\d) to (\d{4}-\d\d-\d\d)",),
        shape=r"(\d{4}-\d\d-\d\d) (?:to|until|through|and|-) (\d{4}-\d\d-\d\d)",
        guesses=among("2025-07-01 2025-09-30"),
    ),
    department=RecipeParameter(
        question="Employees of which department should I audit?",
        patterns=(r"in the department ([A-Z]\w+)",),
        shape=r"\b(?:department|is|are) ([A-Z]\w+)|^([A-Z]\w+)[.]?$",
        guesses=seen("look at the staff list", r"department: (\w+)", "all"),
    ),
    receipt_minimum=RecipeParameter(
        question="How large must an expense be before it needs a receipt?",
        patterns=(r"of (\d+(?:\.\d+)?) EUR or more that has no receipt",),
        shape=r"(\d+(?:\.\d+)?) ?(?:EUR|euros?)\b",
        guesses=among("25", "50", "30"),
        rule=looked_up("read the policy", r"(?:Receipts|they) are due from (\d+(?:\.\d+)?) EUR"),
    ),
    receipt_code=RecipeParameter(
        question="Which reason code do I write for a missing receipt?",
        patterns=(
            r"no receipt, reason code ([A-Z]+-?\d+)",
            r"([A-Z]+-?\d+) (?:for|=|means) (?:a )?(?:no|missing) receipt",
        ),
        shape=_CODE,
        guesses=among("NO_RECEIPT", "R1", "RECEIPT"),
        find=looked_up("read last quarter's notes", r"([A-Z]+-?\d+) = no receipt"),
    ),
    limit_code=RecipeParameter(
        question="Which reason code do I write for an expense over its limit?",
        patterns=(
            r"`travel_policy.md`, reason code ([A-Z]+-?\d+)",
            r"([A-Z]+-?\d+) (?:for|=|means) (?:an? )?(?:expense )?over",
        ),
        shape=_CODE,
        guesses=among("OVER_LIMIT", "L1", "LIMIT"),
        find=looked_up("read last quarter's notes", r"([A-Z]+-?\d+) = over limit"),
    ),
    report_file=file_with(
        "the findings", r"findings to `([^`]+)`", "xlsx|csv", "findings.csv", "audit_report.csv", "findings_q3.csv"
    ),
    sort_order=RecipeParameter(
        question="How should the rows of the findings be sorted?",
        patterns=(r"sort the rows (?:of the findings )?by ([^.]+)\.",),
        shape=r"(amount, (?:largest|smallest) first|expense_id)",
        guesses=among("expense_id", "amount, largest first"),
        criticality=0.5,
        reopened_by=(r"the rows of the findings in another order",),
    ),
    summary_file=file_for("the summary", r"then write `([^`]+)` in Markdown", "md", "summary.md"),
)
