#!/usr/bin/env python3
"""public_test.py CAMBIUM: `import` and `export` keep every bit of a public model.

The folders of tests/golden were written by another program (Hugging Face transformers). Imported, their parameters stand in
model.h5 where this file's own translation puts them; exported again, every tensor has the bytes that it had. A campaign
that starts from an exported and imported model goes on as from the checkpoint itself.
"""
import json
import pathlib
import shutil
import struct
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import support

GOLDEN = support.ROOT / "tests/golden"
TEXT = str(support.CONFIGS / "data/tinyshakespeare/validation.txt")

PLAIN = {"attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}
PLAIN |= {f"attention.{x}": f"self_attn.{x}_proj" for x in "qkvo"}
PLAIN |= {f"mlp.{x}": f"mlp.{x}_proj" for x in ("gate", "up", "down")}
CONV1D = {"attention_norm": "ln_1", "attention.o": "attn.c_proj", "mlp_norm": "ln_2", "mlp.up": "mlp.c_fc"}
CONV1D |= {"mlp.down": "mlp.c_proj"}


def read_tensors(path):
    """{name: array} of a safetensors file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    types = {"F32": numpy.float32, "F16": numpy.float16}
    return {
        name: numpy.frombuffer(data[8 + length :][slice(*t["data_offsets"])], types[t["dtype"]]).reshape(t["shape"])
        for name, t in header.items()
    }


def write_tensors(path, tensors):
    header, data = {}, b""
    for name, array in tensors.items():
        dtype = {numpy.dtype("float32"): "F32", numpy.dtype("float16"): "F16"}[array.dtype]
        offsets = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": offsets}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def translated_llama(t):
    ours = {"embedding.weight": t["model.embed_tokens.weight"], "norm.weight": t["model.norm.weight"]}
    ours["head.weight"] = t["lm_head.weight"]
    for i in range(2):
        ours |= {f"layers.{i}.{a}.weight": t[f"model.layers.{i}.{b}.weight"] for a, b in PLAIN.items()}
    return ours


def translated_gpt2(t):
    t = {name.removeprefix("transformer."): array for name, array in t.items()}
    ours = {"embedding.weight": t["wte.weight"], "positions.weight": t["wpe.weight"]}
    for kind in ("weight", "bias"):
        ours[f"norm.{kind}"] = t[f"ln_f.{kind}"]
        for i in range(2):
            ours |= {f"layers.{i}.{a}.{kind}": t[f"h.{i}.{b}.{kind}"].T for a, b in CONV1D.items()}
            for part, x in enumerate("qkv"):
                whole = t[f"h.{i}.attn.c_attn.{kind}"].T
                ours[f"layers.{i}.attention.{x}.{kind}"] = whole[64 * part : 64 * (part + 1)]
    return ours


def small_campaign(family, vocabulary):
    look = {"kind": "evaluate", "task": "loss", "data": TEXT, "batches": 1, "global_batch_size": 4}
    train = {"name": "train", "kind": "pretrain", "steps": 2, "global_batch_size": 4, "sequence_length": 24}
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32}
    return {
        "run": {"name": "run", "seed": 3},
        "model": {"family": family, "vocab_size": vocabulary} | sizes,
        "parallel": {"data": 1, "micro_batch_size": 2, "logical": {"tensor": 2, "data": 2}},
        "tokenizer": {"bytes": True},
        "checkpoint": {"every_steps": 2},
        "phases": [
            train | {"data": TEXT, "learning_rate": {"kind": "constant", "peak": 0.01}},
            look | {"name": "look", "sequence_length": 24},
        ],
    }


class Public(support.Story):
    def copy(self, family, name="public"):
        """A folder that a test may change."""
        folder = self.folder / name
        folder.mkdir()
        for file in ("config.json", "model.safetensors"):
            shutil.copy(GOLDEN / family / file, folder)
        return folder

    def change(self, folder, **keys):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | keys))

    def expect_refused(self, folder, pattern, code=4):
        ended = self.command("import", folder, self.folder / "refused", code=code)
        self.assert_one_line(ended, pattern)
        self.assertFalse((self.folder / "refused").exists())

    def test_a_public_model_comes_and_goes_without_a_changed_bit(self):
        for family, translate in (("llama", translated_llama), ("gpt2", translated_gpt2)):
            with self.subTest(family=family):
                theirs = read_tensors(GOLDEN / family / "model.safetensors")
                imported, exported = self.folder / f"{family}-in", self.folder / f"{family}-out"
                self.command("import", GOLDEN / family, imported)
                self.command("verify", imported / "latest")

                model = support.read_model(imported / "latest")
                ours = {name: array.values for name, array in support.named(model["parameters"]).items()}
                want = translate(theirs)
                self.assertEqual(sorted(ours), sorted(want))
                for name, array in want.items():
                    self.assert_equal_bits(ours[name], numpy.ascontiguousarray(array), name)
                for slot in support.SLOTS[1:]:
                    self.assertFalse(any(a.values.any() for a in model[slot].values()), slot)

                self.command("export", imported / "latest", exported)
                again = read_tensors(exported / "model.safetensors")
                self.assertEqual(sorted(again), sorted(theirs))
                for name, array in theirs.items():
                    self.assert_equal_bits(again[name], array, name)
                self.command("import", exported, self.folder / f"{family}-again")
                self.assert_equal_checkpoints(self.folder / f"{family}-again/latest", imported / "latest")

    def test_old_files_without_prefix_with_masks_and_in_half_precision(self):
        folder = self.copy("gpt2")
        theirs = read_tensors(folder / "model.safetensors")
        old = {name.removeprefix("transformer."): array.astype(numpy.float16) for name, array in theirs.items()}
        old |= {f"h.{i}.attn.bias": numpy.ones((1, 1, 64, 64), numpy.float16) for i in range(2)}
        old["lm_head.weight"] = old["wte.weight"]
        write_tensors(folder / "model.safetensors", old)

        self.command("import", folder, self.folder / "in")

        model = support.read_model(self.folder / "in/latest")
        table = support.named(model["parameters"])["embedding.weight"].values
        self.assert_equal_bits(table, old["wte.weight"].astype(numpy.float32), "widened")

    def tensors(self, folder, change=lambda t: t):
        """The folder's file again, changed."""
        write_tensors(folder / "model.safetensors", change(read_tensors(folder / "model.safetensors")))

    def test_h01_the_head_and_the_flag_that_ties_it_must_agree(self):
        head = "lm_head.weight"

        def without_head(t):
            return {k: v for k, v in t.items() if k != head}

        cases = {}
        for name, flag, has_head in (
            ("tied-absent", True, False),
            ("untied-present", False, True),
            ("untied-absent", False, False),
            ("default-absent", None, False),
        ):
            folder = cases[name] = self.copy("llama", name)
            self.change(folder, tie_word_embeddings=flag)
            if not has_head:
                self.tensors(folder, without_head)
        for name in ("tied-absent", "untied-present"):
            self.command("import", cases[name], f"{name}-in")
            self.command("export", f"{name}-in/latest", f"{name}-out")
            self.command("import", f"{name}-out", f"{name}-again")
            self.assert_equal_checkpoints(self.folder / f"{name}-in/latest", self.folder / f"{name}-again/latest")
            exported = json.loads((self.folder / f"{name}-out/config.json").read_text())
            self.assertEqual(exported["tie_word_embeddings"], name == "tied-absent")
            self.assertEqual(head in read_tensors(self.folder / f"{name}-out/model.safetensors"), name != "tied-absent")
        for name in ("untied-absent", "default-absent"):  # a Llama is untied where nothing is said
            self.expect_refused(cases[name], "no tensor lm_head.weight, which tie_word_embeddings: false of config.json wants")
        # A tied table under both names: equal bits are one table, others are a contradiction.
        both = self.copy("llama", "both")
        self.change(both, tie_word_embeddings=True)
        self.expect_refused(both, "lm_head.weight is not model.embed_tokens.weight, which tie_word_embeddings: true")
        self.tensors(both, lambda t: t | {head: t["model.embed_tokens.weight"]})
        self.command("import", both, "both-in")

    def test_h02_no_padding_of_a_cut_table_is_exported(self):
        campaign = small_campaign("gpt2", 257)
        campaign["parallel"]["logical"]["tensor"] = 4
        ranks, mesh = support.layout(4, 1, 1)
        self.run_to_end("run", ranks, mesh, config=support.write_config(self.folder / "run.yaml", campaign))
        self.command("export", "run", "out")
        self.assertEqual(read_tensors(self.folder / "out/model.safetensors")["transformer.wte.weight"].shape, (257, 24))
        self.assertEqual(json.loads((self.folder / "out/config.json").read_text())["vocab_size"], 257)
        self.command("import", "out", "in")
        again = campaign | {"model": {"from": str(self.folder / "in/latest")}, "phases": campaign["phases"][-1:]}
        self.run_to_end("again", ranks, mesh, config=support.write_config(self.folder / "again.yaml", again))
        loss = [[r["validation_loss"] for r in self.numbers(run) if "validation_loss" in r] for run in ("run", "again")]
        self.assertEqual(loss[0], loss[1])

    def test_h03_scaled_positions_are_refused_by_key_and_value(self):
        folder = self.copy("llama")
        for key, value in (
            ("rope_scaling", {"type": "linear", "factor": 2}),
            ("rope_scaling", {"rope_type": "llama3", "factor": 8}),
            ("rope_scaling", {"rope_type": "yarn"}),
            ("rope_parameters", {"rope_type": "banana", "rope_theta": 1e4}),
            ("rope_parameters", {"rope_theta": 1e4, "factor": 4.0}),
        ):
            self.change(folder, **{"rope_scaling": None, "rope_parameters": None, key: value})
            self.expect_refused(folder, rf"config.json: {key}: .* got {json.dumps(value, sort_keys=True, separators=(',', ':'))}")
        self.change(folder, rope_scaling=None, rope_parameters={"rope_theta": 1e4}, rope_theta=5e5)
        self.expect_refused(folder, "rope_theta: 500000.0, and rope_parameters has 10000.0")
        self.change(folder, rope_scaling={"rope_type": "default"}, rope_parameters=None, rope_theta=1e4)
        self.command("import", folder, "in")

    def test_h06_the_rotary_layout_stands_in_the_file(self):
        """That its logits are an independent program's is unit/engine's business; that bits survive, the first test's."""
        self.command("import", GOLDEN / "llama", "in")
        self.command("export", "in/latest", "out")
        data = (self.folder / "out/model.safetensors").read_bytes()
        header = json.loads(data[8 : 8 + struct.unpack("<Q", data[:8])[0]])
        self.assertEqual(header["__metadata__"], {"format": "pt", "rotary": "half_split"})

    def test_h07_sizes_of_heads_are_taken_as_they_are_given(self):
        def heads(kv, width):
            def change(t):
                for i in range(2):
                    for x, n in (("q", 4), ("k", kv), ("v", kv)):
                        t[f"model.layers.{i}.self_attn.{x}_proj.weight"] = numpy.ones((n * width, 64), numpy.float32)
                    t[f"model.layers.{i}.self_attn.o_proj.weight"] = numpy.ones((64, 4 * width), numpy.float32)
                return t

            return change

        absent = object()
        for name, head_dim, kv, (kv_heads, width) in (
            ("given", 32, 2, (2, 32)),
            ("null", None, 2, (2, 16)),
            ("absent", absent, absent, (4, 16)),
        ):
            folder = self.copy("llama", name)
            keys = json.loads((folder / "config.json").read_text()) | {"head_dim": head_dim, "num_key_value_heads": kv}
            (folder / "config.json").write_text(json.dumps({k: v for k, v in keys.items() if v is not absent}))
            self.tensors(folder, heads(kv_heads, width))
            self.command("import", folder, f"{name}-in")
            self.command("export", f"{name}-in/latest", f"{name}-out")
            out = json.loads((self.folder / f"{name}-out/config.json").read_text())
            self.assertEqual((out["head_dim"], out["num_key_value_heads"]), (width, kv_heads))
        for key, value in (("num_key_value_heads", 0), ("head_dim", 0), ("head_dim", -16), ("num_key_value_heads", 3)):
            folder = self.copy("llama", f"bad-{key}-{value}")
            self.change(folder, **{key: value})
            self.expect_refused(folder, f"{key}: expected a positive number" if value < 1 else "3 key/value heads do not divide 4")

    def test_what_does_not_fit_is_refused_by_name(self):
        folder = self.copy("gpt2")
        whole = read_tensors(folder / "model.safetensors")
        name = "transformer.h.1.mlp.c_fc.bias"
        write_tensors(folder / "model.safetensors", {k: v for k, v in whole.items() if k != name})
        self.expect_refused(folder, rf"public: no tensor {name}")
        write_tensors(folder / "model.safetensors", whole | {name: whole[name][1:]})
        self.expect_refused(folder, rf"{name} is \(255\), config.json wants \(256\)")
        write_tensors(folder / "model.safetensors", whole | {"transformer.h.2.ln_1.bias": whole[name]})
        self.expect_refused(folder, r"transformer.h.2.ln_1.bias \(256\) belongs to no parameter")
        (folder / "model.safetensors").write_bytes((GOLDEN / "gpt2/model.safetensors").read_bytes()[:-4])
        self.expect_refused(folder, r"transformer.wte.weight: its data stand at")
        shutil.copy(GOLDEN / "gpt2/model.safetensors", folder)
        for keys, pattern in (
            ({"activation_function": "gelu"}, r'activation_function: this program computes "gelu_new" only, got "gelu"'),
            ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx: this program computes false only"),
            ({"n_embd": "wide"}, 'n_embd: unexpected value "wide"'),
            ({"n_head": 0}, "n_head: expected a positive number"),
            ({"n_head": 5}, "5 heads do not divide a width of 64"),
            ({"model_type": "gpt_neo"}, 'model_type: expected one of gpt2, llama, got "gpt_neo"'),
        ):
            shutil.copy(GOLDEN / "gpt2/config.json", folder)
            self.change(folder, **keys)
            self.expect_refused(folder, pattern)
        (self.folder / "full").mkdir()
        (self.folder / "full/notes").write_text("mine")
        self.assert_one_line(self.command("import", GOLDEN / "gpt2", "full", code=2), "full: not empty")

    def test_a_trained_model_starts_again_from_its_public_form(self):
        campaign = small_campaign("gpt2", 259)
        train, look = campaign["phases"]
        self.run_to_end("run", 0, config=support.write_config(self.folder / "run.yaml", campaign))
        self.command("export", "run", "out")
        self.command("import", "out", "in")
        again = campaign | {"model": {"from": str(self.folder / "in/latest")}, "phases": [look]}
        self.run_to_end("again", 0, config=support.write_config(self.folder / "again.yaml", again))

        loss = [[r["validation_loss"] for r in self.numbers(run) if "validation_loss" in r] for run in ("run", "again")]
        self.assertEqual(loss[0][-1:], loss[1])
        self.assert_one_line(self.command("export", "run", "out", code=2), "out/config.json: exists")

        direct = again | {"model": {"from": str(self.folder / "out")}}
        for command in ("run", "validate"):
            ended = self.command(command, support.write_config(self.folder / "direct.yaml", direct), code=2)
            self.assert_one_line(ended, r"model.from: \S+/out is a Hugging Face folder, .* cambium import \S+/out NEW_FOLDER")

        # An inserted block has no public form.
        grow = {"name": "grow", "kind": "grow", "operations": [{"insert_gated_residual": {"after": "embedding"}}]}
        grown = campaign | {"phases": [train, grow | {"verify": {"batches": 1}}]}
        self.run_to_end("grown", 0, config=support.write_config(self.folder / "grown.yaml", grown))
        ended = self.command("export", "grown", "no", code=2)
        self.assert_one_line(ended, r"embedding.inserted.0.norm.weight has no place in the public files of family gpt2")


if __name__ == "__main__":
    support.main()
