#!/usr/bin/env python3
"""Sets step_bench's lines beside PyTorch's of the same run: python3 ratios.py LINES GEMM_LINES

The better of eager and compiled counts. A ratio is valid only where PyTorch itself was well used: its products reached
75 % of its own library's peak, probed by bench_gemm.py in the same run, and the machine was quiet. PyTorch's FLOPs are counted as bench_step.py
does (6 per weight and token, attention without the causal discount), which flatters it: the bar is easier to pass.
Memory is the peak resident size above that of an empty process of the same kind.
"""
import json
import statistics
import sys

BUSY_LIMIT = 15  # percent of all cores used by others just before a line
GEMM_SHARE = 0.75


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.startswith("{")]


def main():
    measured, gemm = lines(sys.argv[1]), lines(sys.argv[2])
    peak = max(g["best"] for g in gemm if g["dtype"] == "float32")
    empty = {m["of"]: m["rss_MB"] for m in measured if m.get("bench") == "empty"}
    for shape in ("tiny", "gpt2"):
        ours = [m for m in measured if m.get("bench") == "step" and m["shape"] == shape and m["threads"] == 2]
        eager = [m for m in measured if m.get("model") == shape and not m["compile"]]
        compiled = [m for m in measured if m.get("model") == shape and m["compile"]]
        if not ours or not (eager or compiled):
            continue
        speed = statistics.median(m["tokens_per_second"] for m in ours)
        kinds = {
            name: (statistics.median(m["tok_s"] for m in some), statistics.median(m["gflops"] for m in some))
            for name, some in (("eager", eager), ("compiled", compiled))
            if some
        }
        best = max(kinds, key=lambda k: kinds[k][0])
        share = kinds[best][1] / peak
        busiest = max(m["busy_percent"] for m in ours + eager + compiled)
        reasons = []
        if share < GEMM_SHARE:
            reasons.append(f"PyTorch reached {share:.0%} of its own GEMM peak, expected at least {GEMM_SHARE:.0%}")
        if busiest > BUSY_LIMIT:
            reasons.append(f"others used up to {busiest} % of the cores")
        print(
            json.dumps(
                {
                    "bench": "ratio",
                    "shape": shape,
                    "threads": 2,
                    "ours_tokens_per_second": round(speed, 1),
                    **{f"torch_{k}_tokens_per_second": round(v[0], 1) for k, v in kinds.items()},
                    "better": best,
                    "ratio": round(speed / kinds[best][0], 3),
                    "torch_share_of_gemm_peak": round(share, 3),
                    "torch_gemm_peak_gflops": peak,
                    "memory_ratio": round(
                        (min(m["peak_rss_MB"] for m in ours) - empty["ours"])
                        / (min(m["peak_rss_MB"] for m in eager + compiled) - empty["torch"]), 3),
                    "is_valid": not reasons,
                    "why_not": "; ".join(reasons),
                }
            )
        )


if __name__ == "__main__":
    main()
