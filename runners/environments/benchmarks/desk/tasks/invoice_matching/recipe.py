"""invoice-matching: load invoices, orders and receipts, apply three rules, write exceptions, payments and a note."""

from lhaw_record.runners.environments.benchmarks.desk.recipe import (
    RecipeParameter,
    among,
    file_for,
    file_with,
    looked_up,
    recipe_of,
    seen,
)

_CODE = r"\b([A-Z]{1,4}-?\d+)\b"
_DAY = r"\b(\d{4}-\d\d-\d\d)\b"
_OLD_EXCEPTIONS = "read last month's exceptions"
_MAIL = "read the messages"

RECIPE = recipe_of(
    __file__,
    recognise=r"invoice matching",
    deliverables=("exceptions_file", "payment_file", "note_file"),
    invoice_file=RecipeParameter(
        question="Which of the invoice lists should I match?",
        patterns=(r"invoices in `([^`]+)`",),
        shape=r"([\w./-]+\.csv)\b",
        guesses=seen("list the files", r"\./([\w-]*invoices[\w-]*\.csv)\b", "invoices.csv"),
        shown_by="list the files",
    ),
    order_code=RecipeParameter(
        question="Which code do I write for an invoice without an open order?",
        patterns=(r"\b([A-Z]+-?\d+): its order number is not",),
        shape=_CODE,
        guesses=among("NO_ORDER", "E1"),
        find=looked_up(_OLD_EXCEPTIONS, r"([A-Z]+-?\d+),no open order"),
    ),
    quantity_code=RecipeParameter(
        question="Which code do I write when more pieces are billed than were received?",
        patterns=(r"\b([A-Z]+-?\d+): it bills more pieces",),
        shape=_CODE,
        guesses=among("QUANTITY", "E2"),
        find=looked_up(_OLD_EXCEPTIONS, r"([A-Z]+-?\d+),billed more than received"),
    ),
    price_code=RecipeParameter(
        question="Which code do I write when the unit price is too high?",
        patterns=(r"\b([A-Z]+-?\d+): its unit price is",),
        shape=_CODE,
        guesses=among("PRICE", "E3"),
        find=looked_up(_OLD_EXCEPTIONS, r"([A-Z]+-?\d+),unit price too high"),
    ),
    tolerance_percent=RecipeParameter(
        question="How many percent may the unit price be above the order before it is an exception?",
        patterns=(r"by more than (\d+(?:\.\d+)?) percent",),
        shape=r"(\d+(?:\.\d+)?) ?(?:percent|%)",
        guesses=among("5", "2", "10"),
    ),
    exceptions_file=file_with(
        "the exceptions", r"exceptions to `([^`]+)`", "xlsx|csv", "exceptions.csv", "exceptions_september.csv"
    ),
    cutoff_date=RecipeParameter(
        question="Up to which due date should invoices be paid?",
        patterns=(r"due on or before (\d{4}-\d\d-\d\d)",),
        shape=_DAY,
        guesses=among("2025-09-30", "2025-10-31"),
        rule=looked_up(_MAIL, r"released for invoices due on or before (\d{4}-\d\d-\d\d)"),
    ),
    payment_file=file_with("the payments", r"payments to `([^`]+)`", "csv", "payments.csv", "payment_run.csv"),
    amount_unit=RecipeParameter(
        question="Should the amounts of the payments be in euros or in cents?",
        patterns=(r"amount is in (euros with two decimals|whole cents)",),
        shape=r"\b(euros with two decimals|whole cents)\b",
        guesses=among("euros with two decimals"),
        criticality=0.5,
    ),
    pay_date=RecipeParameter(
        question="On which day should the payments be made?",
        patterns=(r"day of payment (\d{4}-\d\d-\d\d)",),
        shape=_DAY,
        guesses=among("2025-09-30", "2025-10-02"),
    ),
    date_format=RecipeParameter(
        question="In which format should the date of payment be written?",
        patterns=(r"written as (YYYY-MM-DD|DD\.MM\.YYYY|YYYYMMDD)",),
        shape=r"\b(YYYY-MM-DD|DD\.MM\.YYYY|YYYYMMDD)\b",
        guesses=among("YYYY-MM-DD"),
        criticality=0.5,
        reopened_by=(r"cannot read the dates",),
    ),
    note_file=file_for("the note", r"write `([^`]+)`, a short text", "txt", "note.txt"),
    recipient=RecipeParameter(
        question="Who is the note for?",
        patterns=(r"inform ((?-i:[A-Z]\w+(?: [A-Z]\w+)+))",),
        shape=r"\b([A-Z]\w+(?: [A-Z]\w+)+)\b",
        guesses=among("Accounts Payable", "Treasury Team"),
        find=looked_up(_MAIL, r"are signed by ([A-Z]\w+(?: [A-Z]\w+)+)"),
        criticality=0.5,
    ),
)
