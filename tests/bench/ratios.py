#!/usr/bin/env python3
"""Sets step_bench's lines beside PyTorch's of the same run, and variants of ours beside each other:

    python3 ratios.py LINES GEMM_LINES

The better of eager and compiled counts. A ratio is valid only where the machine was quiet and PyTorch itself was well used: its
products reached 75 % (fp32) or 55 % (bf16) of its own library's peak, probed by bench_gemm.py in the same run (asked of whole steps on
two threads; two processes have no such probe). PyTorch's FLOPs are counted as bench_step.py does (6 per weight and token,
attention without the causal discount), which flatters it: the bar is easier to pass. Memory is the peak resident size above
that of an empty process of the same kind.
"""
import json
import statistics
import sys

BUSY_LIMIT = 15  # percent of all cores used by others just before a line
GEMM_SHARE = {"fp32": 0.75, "bf16": 0.55}
VARIANTS = {"exact": "reduction", "cluster": "reduction", "blocks": "block"}  # case: the field in which its lines differ
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.startswith("{")]


def median(rows, key):
    return statistics.median(row[key] for row in rows)


def compare_variants(measured):
    """Milliseconds of our own variants, medians of their alternating lines, against the first."""
    variants = {}
    for m in measured:
        if m.get("case") in VARIANTS:
            setting = (m["case"], m["ranks"], m["threads"])
            variants.setdefault(setting, {}).setdefault(m[VARIANTS[m["case"]]], []).append(m)
    for (name, ranks, threads), found in variants.items():
        times = {variant: median(rows, "step_ms") for variant, rows in found.items()}
        first = next(iter(times))
        row = {"bench": name, "ranks": ranks, "threads": threads}
        row |= {f"{variant}_ms": round(ms, 2) for variant, ms in times.items()}
        row |= {f"{variant}_over_{first}": round(ms / times[first], 3) for variant, ms in times.items() if variant != first}
        print(json.dumps(row))


def main():
    measured, gemm = lines(sys.argv[1]), lines(sys.argv[2])
    compare_variants(measured)
    empty = {m["of"]: m["rss_MB"] for m in measured if m.get("bench") == "empty"}
    names = dict.fromkeys(m["case"] for m in measured if "case" in m)
    for name in names:
        rows = [m for m in measured if m.get("case") == name]
        ours = [m for m in rows if m["of"] == "ours"]
        peers = {of: [m for m in rows if m["of"] == of and "tok_s" in m] for of in ("eager", "compiled")}
        peers = {of: found for of, found in peers.items() if found}
        if not ours or not peers:
            continue
        precision = ours[0]["precision"]
        best = max(peers, key=lambda of: median(peers[of], "tok_s"))
        speed = median(ours, "tokens_per_second")
        ratio = {
            "bench": "ratio",
            "case": name,
            "ours_tokens_per_second": round(speed, 1),
            **{f"torch_{of}_tokens_per_second": round(median(found, "tok_s"), 1) for of, found in peers.items()},
            "better": best,
            "ratio": round(speed / median(peers[best], "tok_s"), 3),
        }
        reasons = []
        if all("gflops" in m for m in peers[best]):
            peak = max(g["best"] for g in gemm if g["dtype"] == DTYPES[precision])
            share = median(peers[best], "gflops") / peak
            ratio |= {"torch_share_of_gemm_peak": round(share, 3), "torch_gemm_peak_gflops": peak}
            if share < GEMM_SHARE[precision]:
                reasons.append(f"PyTorch reached {share:.0%} of its own GEMM peak, expected at least {GEMM_SHARE[precision]:.0%}")
            memory = min(m["peak_rss_MB"] for found in peers.values() for m in found) - empty["torch"]
            ratio["memory_ratio"] = round((min(m["peak_rss_MB"] for m in ours) - empty["ours"]) / memory, 3)
        busiest = max(m["busy_percent"] for m in rows)
        if busiest > BUSY_LIMIT:
            reasons.append(f"others used up to {busiest} % of the cores")
        print(json.dumps(ratio | {"is_valid": not reasons, "why_not": "; ".join(reasons)}))


if __name__ == "__main__":
    main()
