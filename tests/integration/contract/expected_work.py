"""expected_work.py — what each rank of a pretraining run must hold, compute and send, from the spec alone.

Written from design.md and the modules' READMEs, apart from the program's own plans: `expected_ranks` gives the rows that
ranks.json must have. Sizes that a rank shares with nobody are cut as ⌊i·n/parts⌋ … ⌊(i+1)·n/parts⌋.
"""
import dataclasses

FLOAT = 4
DOUBLE = 8
VECTOR_GRAIN = 4096
SMALL_MESSAGE = 8192  # a sum this short sends its subtrees whole (src/comm/tree_sum.cpp)
HEAD_CHUNK = 256


def share(n, parts, i):
    return range(i * n // parts, (i + 1) * n // parts)


@dataclasses.dataclass
class Parameter:
    rows: int
    cols: int
    cut: str  # "rows", "cols" or "" (replicated)
    units: int = 1

    def of_shard(self, shards, shard):
        """(rows, cols) of a logical tensor shard."""
        if not self.cut:
            return self.rows, self.cols
        axis = self.rows if self.cut == "rows" else self.cols
        size = len(share(self.units, shards, shard)) * (axis // self.units)
        return (size, self.cols) if self.cut == "rows" else (self.rows, size)


@dataclasses.dataclass
class Run:
    """The sizes of a run: spec as in manifest.json, logical and physical mesh, layers by stage, work per step."""

    spec: dict
    logical: tuple  # tensor, data
    physical: tuple  # tensor, pipeline, data
    stages: list
    steps: int
    global_batch: int
    micro_batch: int
    positions: int
    is_sharded: bool = True
    is_sequence_parallel: bool = True
    checkpoints: int = 2  # the one of step 0, and the last
    activation: int = FLOAT  # bytes of an activation or its gradient where it travels as one; sums travel in fp32

    @property
    def rows(self):
        return self.positions * self.micro_batch


def entities(run):
    """[(layer, [parameters])] in order of execution; layer -1 is the embedding's, len(layers) the last stage's own."""
    spec = run.spec
    hidden, vocabulary = spec["hidden"], spec["vocabulary"]
    gpt2 = spec["family"] == "gpt2"
    whole = [Parameter(1, hidden, "")]  # a gain, or a bias that every tensor rank holds
    norm = whole * 2 if gpt2 else whole
    found = [(-1, [Parameter(vocabulary, hidden, "rows", vocabulary)])]
    if gpt2:
        found.append((-1, [Parameter(spec["max_positions"], hidden, "")]))
    for i, layer in enumerate(spec["layers"]):
        query = layer["heads"] * layer["head_width"]
        key = layer["kv_heads"] * layer["head_width"]
        groups, ffn = layer["kv_heads"], layer["ffn"]

        def by_rows(size, units):
            """A product cut by its outputs, and its bias cut with it."""
            return [Parameter(size, hidden, "rows", units)] + [Parameter(1, size, "cols", units)] * gpt2

        attention = by_rows(query, groups) + by_rows(key, groups) * 2 + [Parameter(hidden, query, "cols", groups)]
        mlp = by_rows(ffn, ffn) * (1 if gpt2 else 2) + [Parameter(hidden, ffn, "cols", ffn)]
        found.append((i, norm + attention + whole * gpt2 + norm + mlp + whole * gpt2))
    last = len(spec["layers"])
    found.append((last, norm))
    if not spec["is_tied"]:
        found.append((last, [Parameter(vocabulary, hidden, "rows", vocabulary)]))
    return found


def stage_of(run, layer):
    """The rank in the pipeline: virtual stage v is chunk v // ranks of stage v % ranks."""
    layer = min(max(layer, 0), len(run.spec["layers"]) - 1)
    for virtual_stage, count in enumerate(run.stages):
        if layer < count:
            return virtual_stage % run.physical[1]
        layer -= count
    raise AssertionError("the stages hold fewer layers than the spec")


class Bucket:
    """One entity on one rank: its elements and how data ranks divide them."""

    def __init__(self, run, parameters, shards, lanes=1):
        self.lanes = lanes
        logical = run.logical[0]
        self.parameters = parameters
        self.parts = []  # (elements, grain)
        for p in [p for p in parameters if p.cut]:
            for shard in shards:
                rows, cols = p.of_shard(logical, shard)
                self.parts.append((rows * cols, VECTOR_GRAIN if p.rows == 1 else max(cols, 1)))
        for p in [p for p in parameters if not p.cut]:
            self.parts.append((p.rows * p.cols, VECTOR_GRAIN if p.rows == 1 else p.cols))
        self.elements = sum(elements for elements, _ in self.parts)
        self.grains = sum(-(-elements // grain) for elements, grain in self.parts)
        self.leaf_width = sum(p.rows * p.cols for p in parameters if not p.cut)

    def owned_grains(self, ranks, rank):
        return len(share(self.grains, ranks, rank))

    def owned(self, ranks, rank):
        own = share(self.grains, ranks, rank)
        return self._element_of(own.stop) - self._element_of(own.start)

    def _element_of(self, grain):
        offset = 0
        for elements, size in self.parts:
            grains = -(-elements // size)
            if grain < grains:
                return offset + grain * size
            grain -= grains
            offset += elements
        return offset


def product_flops(run, stage, shards, micro_batches):
    """2·M·N·K forward, the same for each of the two backward halves."""
    per_pass = 0
    for layer, parameters in entities(run):
        is_head = layer == len(run.spec["layers"]) and len(parameters) == 1 and parameters[0].cut
        if stage_of(run, layer) != stage or layer == -1:
            continue
        if layer < len(run.spec["layers"]) or is_head:
            for p in parameters:
                if p.cut and p.rows > 1:
                    for shard in shards:
                        rows, cols = p.of_shard(run.logical[0], shard)
                        per_pass += 2 * run.rows * rows * cols
    if run.spec["is_tied"] and stage == len(run.stages) - 1:
        table = entities(run)[0][1][0]
        per_pass += sum(2 * run.rows * run.spec["hidden"] * table.of_shard(run.logical[0], s)[0] for s in shards)
    return 3 * per_pass * micro_batches * run.steps


def tree_all_reduce_bytes(elements, ranks, rank):
    """Of one maximal subtree a rank."""
    whole = elements * FLOAT
    if whole * (ranks - 1) <= SMALL_MESSAGE:
        return whole * (ranks - 1)
    own = len(share(elements, ranks, rank)) * FLOAT
    return whole - own + own * (ranks - 1)


def tensor_bytes(run, buckets, stage, tensor, data_shards, micro_batches):
    ranks = run.physical[0]
    if ranks == 1:
        return 0
    hidden, last = run.spec["hidden"], run.physical[1] - 1
    held = share(run.logical[0], ranks, tensor)
    positions = [len(share(run.positions, run.logical[0], s)) for s in held]
    own_rows = sum(positions) * run.micro_batch
    if run.is_sequence_parallel:
        gather = own_rows * hidden * run.activation * (ranks - 1)
        one_sum = (run.rows - own_rows) * hidden * FLOAT
    else:
        gather = 0
        one_sum = tree_all_reduce_bytes(run.rows * hidden, ranks, tensor)
    # A layer: attention and mlp, each gathers its input and sums its output, and the same again backward.
    per_micro_batch = sum(run.stages[stage :: run.physical[1]]) * 4 * (gather + one_sum)
    if stage == 0:
        per_micro_batch += 2 * run.rows * hidden * run.activation * (ranks - 1) // ranks + gather
    if stage == last:
        assert run.rows <= HEAD_CHUNK
        per_micro_batch += gather + one_sum + 3 * len(held) * run.rows * FLOAT * (ranks - 1)
    leaves = sum(
        tree_all_reduce_bytes(b.leaf_width, ranks, tensor) * b.lanes for b in buckets if b.leaf_width > 0
    )
    norms = 1 + sum(len(held) if p.cut else 1 for b in buckets for p in b.parameters)
    per_step = per_micro_batch * micro_batches + leaves * len(data_shards) + norms * DOUBLE * (ranks - 1)
    return per_step * run.steps


def data_bytes(run, buckets, stage, data, data_shards):
    ranks = run.physical[2]
    if ranks == 1:
        return 0
    per_step = 0
    squares = 1  # flags
    for b in buckets:
        own = b.owned(ranks, data)
        if run.is_sharded:
            per_step += (b.elements - own) * FLOAT * b.lanes + own * FLOAT * (ranks - 1)
            squares += b.owned_grains(ranks, data)
        else:
            per_step += tree_all_reduce_bytes(b.elements, ranks, data) * b.lanes
    per_step += squares * DOUBLE * (ranks - 1)
    if stage == run.physical[1] - 1:  # the loss
        per_step += len(data_shards) * DOUBLE * (ranks - 1)
    return per_step * run.steps


def pipeline_bytes(run, buckets, stage, tensor, data, micro_batches):
    ranks = run.physical[1]
    if ranks == 1:
        return 0
    held = share(run.logical[0], run.physical[0], tensor)
    rows = run.rows
    if run.is_sequence_parallel:
        rows = sum(len(share(run.positions, run.logical[0], s)) for s in held) * run.micro_batch
    # An activation forward, a gradient back, for each chunk but at the two ends of the model.
    neighbours = 2 * (len(run.stages) // ranks) - (stage == 0) - (stage == ranks - 1)
    per_step = neighbours * micro_batches * rows * run.spec["hidden"] * run.activation
    own = [b for b in buckets if not getattr(b, "is_mirror", False)]
    numbers = 2 + 3 * sum(len(b.parameters) for b in own)  # flags, loss, (uid, square, group) each
    per_step += numbers * DOUBLE * (ranks - 1)
    if run.spec["is_tied"] and stage in (0, ranks - 1):
        table = buckets[-1] if stage > 0 else buckets[0]
        own_elements = table.owned(run.physical[2], data) if run.is_sharded else table.elements
        per_step += own_elements * FLOAT
    counts = 2 * len(entities(run)) * DOUBLE * (ranks - 1) // ranks  # step counts, once a checkpoint
    return per_step * run.steps + counts * run.checkpoints


def expected_ranks(run):
    """The rows of ranks.json, by rank: parameter_bytes, optimizer_bytes, product_flops, bytes_sent_*."""
    tensor_ranks, pipeline_ranks, data_ranks = run.physical
    rows = []
    for rank in range(tensor_ranks * pipeline_ranks * data_ranks):
        tensor = rank % tensor_ranks
        data = rank // tensor_ranks % data_ranks
        stage = rank // tensor_ranks // data_ranks
        shards = share(run.logical[0], tensor_ranks, tensor)
        data_shards = share(run.logical[1], data_ranks, data)
        micro_batches = run.global_batch // run.micro_batch // run.logical[1] * len(data_shards)
        is_tied = run.spec["is_tied"]
        buckets = []
        for layer, parameters in entities(run):
            if stage_of(run, layer) == stage:
                is_table = layer == -1 and parameters[0].cut
                lanes = 2 if is_tied and is_table and pipeline_ranks == 1 else 1
                buckets.append(Bucket(run, parameters, shards, lanes))
        if is_tied and pipeline_ranks > 1 and stage == pipeline_ranks - 1:
            mirror = Bucket(run, entities(run)[0][1], shards)
            mirror.is_mirror = True
            buckets.append(mirror)
        held = [b.owned(data_ranks, data) if run.is_sharded else b.elements for b in buckets]
        rows.append(
            {
                "rank": rank,
                "stage": stage,
                "tensor": tensor,
                "data": data,
                "parameter_bytes": sum(b.elements for b in buckets) * FLOAT,
                "optimizer_bytes": 2 * sum(held) * FLOAT,
                "product_flops": product_flops(run, stage, shards, micro_batches),
                "bytes_sent_tensor": tensor_bytes(run, buckets, stage, tensor, data_shards, micro_batches),
                "bytes_sent_data": data_bytes(run, buckets, stage, data, data_shards),
                "bytes_sent_pipeline": pipeline_bytes(run, buckets, stage, tensor, data, micro_batches),
            }
        )
    return rows
