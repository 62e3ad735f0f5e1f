"""The answers of replays are computed from the results that they are given, whatever these are."""

import json

from lhaw_record.runners.environments.benchmarks.mcp_atlas.playbook import (
    average_of_service,
    compare_days,
    crimes_in_period,
    profit_against_purchase,
)

CRIMES = """[Reading 5 lines]

Crime_ID,Date_Reported,Crime_Type,Location,Suspect_Age,Victim_Age
1,2001-01-05,Forgery,Online,20,30
2,2001-02-05,Forgery,Street,30,50
3,2005-02-05,Forgery,Street,70,90
4,2001-02-06,Arson,Street,99,99
"""
WEEKS = 'Weeks,Start,End,Revenue,Profit\nWeek 7,13/2/2023,19/2/2023," $ 9,000 "," $ 1,250 "\n'
TRADES = (
    "Timestamp,Transaction Type,Asset,Total (inclusive of fees and/or spread)\n"
    "2023-02-14 10:00:00 UTC,Advance Trade Buy,BTC,1000.5\n"
    "2023-02-15 10:00:00 UTC,Advance Trade Sell,BTC,77\n"
    "2023-02-20 10:00:00 UTC,Advance Trade Buy,BTC,500\n"
)


def test_crimes_within_a_period_and_without_one():
    """The months bound the records; an unknown period bounds nothing."""
    results = ["", "", "", "", "", CRIMES]
    within = crimes_in_period({"crime": "forgery", "period": "january 2001 to march 2001"}, results)
    assert "50.00% of the forgery crimes" in within
    assert "suspects was 25.00" in within
    everything = crimes_in_period({"crime": "forgery", "period": ""}, results)
    assert "suspects was 40.00" in everything
    assert "no records of treason" in crimes_in_period({"crime": "Treason", "period": ""}, results)


def test_profit_and_purchase_of_one_week():
    """Only purchases of the asset within the week count."""
    results = ["", "", "", "", WEEKS, "", "", TRADES]
    answer = profit_against_purchase({"week": "Week 7", "asset": "BTC", "business": ""}, results)
    assert "profit from the pet care business was $1,250.00" in answer
    assert "$1,000.50 worth of Bitcoin" in answer
    assert "was $249.50" in answer
    assert "no purchase of ETH" in profit_against_purchase({"week": "Week 7", "asset": "ETH", "business": ""}, results)
    assert "no profit for Week 8" in profit_against_purchase(
        {"week": "Week 8", "asset": "BTC", "business": ""}, results
    )


def test_days_compared_by_a_program():
    """The five printed numbers become six sentences; anything else is quoted."""
    output = "All: 10.5 20.0 -47.5\nFemale % change: 1.0\nMale % change: -2.0\nLarger gap gender: Male\n"
    values = {"drink": "tea", "day": "Sunday"}
    answer = compare_days(values, ["", "", "", json.dumps({"output": output})])
    assert "The Sunday average total price per entry for people who ordered tea in 2022 to 2023 was $10.5." in answer
    assert "Men who ordered tea showed the larger Sunday vs. Wednesday gap" in answer
    assert "printed: nothing" in compare_days(values, ["", "", "", json.dumps({"output": "nothing"})])
    assert "no figures: broken" in compare_days(values, ["", "", "", "broken"])


def test_averages_of_a_calculator():
    """Numbers are reported, an error message is not mistaken for one."""
    values = {"service": "Shave", "measure": "average age"}
    answer = average_of_service(values, ["", "", "", "4.5\n", "30"])
    assert answer == (
        "The average rating for the shave service is 4.5.\n"
        "The average age of the clients who got the shave service is 30."
    )
    failed = average_of_service({"service": "", "measure": ""}, ["", "", "", "error on line 0", "30"])
    assert failed == "I could not work out a rating for the service."
