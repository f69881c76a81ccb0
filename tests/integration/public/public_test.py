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
        other = self.copy("llama", "llama")
        self.change(other, rope_parameters={"rope_type": "llama3", "rope_theta": 1e4})
        self.expect_refused(other, 'rope_type: this program computes "default" only, got "llama3"')

        (self.folder / "full").mkdir()
        (self.folder / "full/notes").write_text("mine")
        self.assert_one_line(self.command("import", GOLDEN / "gpt2", "full", code=2), "full: not empty")

    def test_a_trained_model_starts_again_from_its_public_form(self):
        look = {"kind": "evaluate", "task": "loss", "data": TEXT, "batches": 1, "global_batch_size": 4}
        look |= {"name": "look", "sequence_length": 24}
        train = {"name": "train", "kind": "pretrain", "steps": 2, "global_batch_size": 4, "sequence_length": 24}
        train |= {"data": TEXT, "learning_rate": {"kind": "constant", "peak": 0.01}}
        sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32}
        campaign = {
            "run": {"name": "run", "seed": 3},
            "model": {"family": "gpt2", "vocab_size": 259} | sizes,
            "parallel": {"data": 1, "micro_batch_size": 2, "logical": {"tensor": 2, "data": 2}},
            "tokenizer": {"bytes": True},
            "checkpoint": {"every_steps": 2},
            "phases": [train, look],
        }
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
