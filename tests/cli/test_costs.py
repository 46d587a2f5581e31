"""Money and GPU hours in a plan, from the prices of the repository and the length of a run."""

import json

from tests.cli.fleet import Fleet

_PRICES = """\
  prices:
    currency: EUR
    source: contract 7
    date: "2026-01-31"
    gpuHours: {NVIDIA-H100-80GB-HBM3: 2.5}
"""
_JOB = "jobs/language/llama-lora.yaml"


def test_a_plan_shows_hours_and_money_before_and_after(fleet: Fleet) -> None:
    """F-008: per queue and per job, in text, Markdown and JSON; what the job costs is in its rendered annotation."""
    path = fleet.root / "reconciler.yaml"
    path.write_text(path.read_text() + _PRICES)
    fleet.edit(_JOB, "--max_seq_length 4096", "--max_seq_length 4096 --max_steps 1000")
    fleet.commit()
    assert fleet.run("commit").code == 0
    fleet.edit(_JOB, "--max_steps 1000", "--max_steps 3000")
    found = json.loads(fleet.run("plan", "-o", "json").out)
    (line,) = [one for one in found["costs"] if one["queue"] == "h100"]
    assert (line["price"], line["currency"], line["source"], line["date"]) == (2.5, "EUR", "contract 7", "2026-01-31")
    assert line["perHourBefore"] == line["perHourAfter"] > 0
    (job,) = found["jobs"]
    assert job["word"] == "changed"
    assert 2.9 < job["gpuHoursAfter"] / job["gpuHoursBefore"] < 3.1
    assert job["moneyAfter"] == round(2.5 * job["gpuHoursAfter"], 2)
    assert line["moneyAfter"] == job["moneyAfter"]
    (change,) = [one for one in found["changes"] if one.get("sizing")]
    assert f"whole run: {job['gpuHoursAfter']:,.1f} GPU hours" in change["sizing"]["chosen"]
    assert f"{job['moneyAfter']:,.2f} EUR" in change["sizing"]["chosen"]
    shown = fleet.run("plan", "--width", "150").out
    assert "Prices in EUR from contract 7, 2026-01-31" in shown
    assert f"{job['gpuHoursBefore']:,.2f} → {job['gpuHoursAfter']:,.2f}" in shown
    review = fleet.run("plan", "-o", "markdown").out.replace("&nbsp;", " ")
    assert f"{job['moneyBefore']:,.2f} → {job['moneyAfter']:,.2f} EUR" in review


def test_storage_is_sized_and_priced(fleet: Fleet) -> None:
    """F-008: the GiB of claims before and after, and their price for a month; without a price it is unknown."""
    prices = f"{_PRICES}    storageMonths: {{standard: 0.1}}\n"
    path = fleet.root / "reconciler.yaml"
    path.write_text(path.read_text() + prices)
    fleet.commit()
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    shown = fleet.run("plan", "--width", "120").out
    assert "Storage  960 → 1,920 GiB in 2 claims (+960), 96.00 → 192.00 EUR per month" in shown
    row = next(line for line in shown.splitlines() if line.startswith("  default/vit-checkpoints"))
    assert " ".join(row.split()).endswith(" 800 → 1,600 +800 80.00 → 160.00 EUR jobs/vision/vit.yaml:2:1")
    path.write_text(path.read_text().replace("    storageMonths: {standard: 0.1}\n", ""))
    assert "GiB in 2 claims (+960); no price of the default class" in fleet.run("plan", "--width", "120").out
    (fleet.root / "jobs/vision/vit.yaml").unlink()
    assert "Storage  160 → 0 GiB in 1 claim (-160)" in fleet.run("plan", "--width", "120").out
    found = json.loads(fleet.run("plan", "-o", "json").out)["claims"]
    assert [(one["key"]["name"], one["before"] >> 30, one["after"]) for one in found] == [("vit-workspace", 160, 0)]


def test_a_dataset_that_is_no_number_is_an_error(fleet: Fleet) -> None:
    fleet.edit(_JOB, "metadata:\n", "metadata:\n  annotations: {gpureconciler.io/dataset-samples: 52k}\n")
    planned = fleet.run("plan", "--width", "200")
    assert planned.code == 3
    assert "sizing.dataset" in planned.out
    assert "'52k' is not a positive whole number" in planned.out


def test_prices_of_a_cluster_need_the_currency_of_the_repository(fleet: Fleet) -> None:
    path = fleet.root / "reconciler.yaml"
    own = "prices: {source: owned, date: '2026-01-31', gpuHours: {NVIDIA-L40S: 1}}"
    path.write_text(path.read_text().replace("    - name: main\n", f"    - name: main\n      {own}\n"))
    linted = fleet.run("lint")
    assert linted.code == 3
    assert "has no currency: the repository has no prices" in linted.out + linted.err
