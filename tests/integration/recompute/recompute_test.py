#!/usr/bin/env python3
"""recompute_test.py CAMBIUM: what is made again in backward has the bits that it had; only memory and work differ.

Every setting on several layouts and schedules, in fp32 and bf16, Llama and GPT-2, over growth (closed layers and blocks
behind norms), in a semi-supervised phase, and changed at a restart.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support


def settings_of(word, **more):
    return {"parallel.recompute": word} | {"parallel." + key: value for key, value in more.items()}


class Recompute(support.Story):
    def use(self, name):
        self.config = support.CONFIGS / "tiny" / name

    def go(self, run, layout, settings, **arguments):
        ranks, mesh = support.layout(*layout)
        return self.run_to_end(run, ranks, mesh | settings, **arguments)

    def expect_equal(self, layouts, more=None):
        more = more or {}
        self.go("none", (1, 1, 1), more)
        for layout, settings in layouts:
            run = "-".join(map(str, [*layout, *settings.values()]))
            with self.subTest(run):
                self.go(run, layout, settings | more)
                self.assert_equal_runs(run, "none")

    def test_layouts_and_schedules(self):
        self.use("contract.yaml")
        self.expect_equal(
            [
                ((1, 1, 1), settings_of("selective")),
                ((1, 1, 1), settings_of("full")),
                ((2, 2, 2), settings_of("full")),
                ((2, 2, 1), settings_of("selective", sequence_parallel="false")),
                ((1, 3, 1), settings_of("full", schedule="gpipe")),
            ]
        )

    def test_interleaved(self):
        self.use("contract.yaml")
        self.expect_equal(
            [
                ((1, 2, 2), settings_of("full", schedule="interleaved", virtual_stages=2)),
                ((2, 2, 1), settings_of("selective", schedule="interleaved", virtual_stages=3)),
            ],
            {"model.num_hidden_layers": 6},
        )

    def test_growth_in_bf16_and_a_semi_supervised_phase(self):
        self.use("bf16.yaml")
        self.expect_equal([((2, 1, 1), settings_of("full")), ((1, 2, 1), settings_of("selective"))])

    def test_gpt2(self):
        self.use("gpt2.yaml")
        self.expect_equal([((1, 1, 1), settings_of("full")), ((2, 2, 1), settings_of("selective"))])

    def test_blocks_at_every_place(self):
        """Blocks behind norms change what may be made again; scalar gates are spread in shared memory."""
        self.use("restart.yaml")
        places = ["layers.0.attention_norm", "layers.0.attention", "layers.1.mlp_norm", "layers.1.mlp", "embedding", "norm"]
        text = self.config.read_text()
        begin = text.index("      - insert_gated_residual")
        end = text.index("      - insert_layers")
        blocks = "".join(
            f"      - insert_gated_residual: {{after: {place}, gate: {gate}}}\n"
            for place, gate in zip(places, ["vector", "scalar"] * 3)
        )
        self.config = self.folder / "blocks.yaml"
        self.config.write_text((text[:begin] + blocks + text[end:]).replace("../data", str(support.CONFIGS / "data")))
        self.expect_equal([((2, 1, 1), settings_of("full")), ((1, 2, 1), settings_of("selective"))])

    def test_the_setting_is_free_at_a_restart(self):
        self.use("restart.yaml")
        self.go("none", (1, 1, 1), {})
        self.go("run", (1, 2, 1), settings_of("full"), inject=["kill_all:point=step,step=5"], code=137)
        self.go("run", (1, 1, 2), settings_of("selective"), inject=["kill_all:point=step,step=11"], code=137)
        self.go("run", (2, 1, 1), settings_of("none"))
        self.assert_equal_runs("run", "none")
        changed = [entry["key"] for event in self.events("run", "restart") for entry in event.get("changed", [])]
        self.assertIn("parallel.recompute", changed)

    def test_it_saves_memory_and_costs_work(self):
        self.use("contract.yaml")
        kept, flops = {}, {}
        for word in ("none", "selective", "full"):
            self.go(word, (1, 1, 1), settings_of(word) | {"phases.pretrain.steps": 2, "model.num_hidden_layers": 8})
            row = self.ranks(word)[0]
            kept[word], flops[word] = row["activation_bytes"], row["product_flops"]
        self.assertLess(kept["selective"], 0.85 * kept["none"])
        self.assertLess(kept["full"], 0.5 * kept["none"])
        self.assertEqual(flops["selective"], flops["none"])
        self.assertGreater(flops["full"], 1.2 * flops["none"])


if __name__ == "__main__":
    support.main()
