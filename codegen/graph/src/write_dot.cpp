// Kernels of one product: blocks of the result over tiles of the operands, batch by batch. Several free or contracted
// axes are one each, whose place is taken apart where an operand does not lie so. What follows the product is computed
// on its block before it is stored.
#include "array_sizes.h"
#include "dot_nest.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/kernels/matmul.h"

namespace kiln::planner {

using lang::Value;

namespace {

// A tile's block along a flat axis.
struct Block {
  const FlatAxis& axis;
  lang::Const size;
  Value start;  // i64
  lang::Operand start_i32;
};

class DotWriter {
 public:
  DotWriter(const GroupContext& context, const DotNest& dot, const Signature& signature,
            const dsl::TracedParams& params)
      : context_(context),
        dot_(dot),
        arguments_(signature.bind(params)),
        bm_(params.constant(signature.first_const)),
        bn_(params.constant(signature.first_const + 1)),
        bk_(params.constant(signature.first_const + 2)),
        group_(params.constant(signature.first_const + 3)),
        scalars_(context.graph, dot.nest, arguments_) {}

  void write();

 private:
  Value extent(const FlatAxis& axis) { return lang::cast(scalars_.number(axis.extent), ElementType::kI32); }
  void bind(StepEmitter& emitter, const Block& block, int expand) const;
  void bind_programs(StepEmitter& emitter) const;
  void bind_loops(StepEmitter& emitter, Value pass);
  Value places(const std::vector<FlatAxis>& axes);
  Value operand(StepEmitter& emitter, StepId step, const Block& rows, const Block& columns);
  std::optional<Value> tile_of(StepEmitter& emitter, const Step& step, const Block& rows, const Block& columns);
  StepId loaded_of(StepId id) const;
  bool is_zero_outside(StepId id, const Block& rows, const Block& columns) const;

  const GroupContext& context_;
  const DotNest& dot_;
  const KernelArguments arguments_;
  const lang::Const bm_, bn_, bk_, group_;
  StepEmitter scalars_;
  std::vector<Value> programs_;
};

void DotWriter::bind(StepEmitter& emitter, const Block& block, int expand) const {
  if (block.axis.axis == kNoAxis) return;
  const Value lanes = lang::expand_dims(lang::arange(0, block.size), expand);
  emitter.bind(block.axis.axis,
               {.start = block.start, .lanes = lanes, .mask = lanes + block.start < emitter.number(block.axis.extent)});
}

void DotWriter::bind_programs(StepEmitter& emitter) const {
  for (size_t i = 0; i < dot_.programs.size(); ++i) {
    if (dot_.programs[i].axis != kNoAxis) emitter.bind(dot_.programs[i].axis, {.start = programs_[i]});
  }
}

// The place along each loop of the pass with this number.
void DotWriter::bind_loops(StepEmitter& emitter, Value pass) {
  for (size_t i = dot_.loops.size(); i-- > 0;) {
    const Value count = extent(dot_.loops[i]);
    if (dot_.loops[i].axis == kNoAxis) continue;
    emitter.bind(dot_.loops[i].axis, {.start = lang::cast(i == 0 ? pass : pass % count, ElementType::kI64)});
    if (i > 0) pass = pass / count;
  }
}

// How many places several axes have together, i32.
Value DotWriter::places(const std::vector<FlatAxis>& axes) {
  Value out = lang::full({}, 1, ElementType::kI32);
  for (const FlatAxis& axis : axes) out = out * extent(axis);
  return out;
}

// An operand that lies in memory with a stride for rows and one for columns.
std::optional<Value> DotWriter::tile_of(StepEmitter& emitter, const Step& step, const Block& rows,
                                        const Block& columns) {
  if (step.kind != Step::Kind::kLoad || !step.when.empty()) return std::nullopt;
  const IndexSpace& space = dot_.nest.space;
  LinearPart row{Expr(), step.offset};
  if (rows.axis.axis != kNoAxis) {
    const auto part = linear_in(space, row.rest, rows.axis.axis);
    if (!part) return std::nullopt;
    row = *part;
  }
  LinearPart column{Expr(1), row.rest};
  if (columns.axis.axis != kNoAxis) {
    const auto part = linear_in(space, row.rest, columns.axis.axis);
    if (!part || space.mentions(row.coefficient, columns.axis.axis)) return std::nullopt;
    column = *part;
  }
  for (const BoundAxis& bound : dot_.nest.bound) {
    if (space.mentions(step.offset, bound.axis)) return std::nullopt;
  }
  Value base = arguments_.tensors.at(step.tensor);
  if (column.rest != Expr()) base = base + emitter.number(column.rest);
  const auto stride = [&](const Expr& expr) -> lang::Operand {
    const auto number = expr.as_constant();
    return number ? lang::Operand(*number) : lang::Operand(emitter.number(expr));
  };
  const Value m = extent(rows.axis), n = extent(columns.axis);
  return lang::tile(base, {m, n}, {stride(row.coefficient), stride(column.coefficient)})
      .load({rows.start_i32, columns.start_i32}, {rows.size, columns.size});
}

// A load that gives zeros where a mask says so: also what is padded with zeros.
StepId DotWriter::loaded_of(StepId id) const {
  const Step& step = dot_.nest.steps[id];
  if (step.kind != Step::Kind::kChoose) return id;
  const Step &inside = dot_.nest.steps[step.operands[0]], &outside = dot_.nest.steps[step.operands[1]];
  const auto is_masked = [&](const Condition& condition) {
    return std::find(inside.when.begin(), inside.when.end(), condition) != inside.when.end();
  };
  const bool is_pad = inside.kind == Step::Kind::kLoad && outside.kind == Step::Kind::kLiteral && outside.bits == 0 &&
                      std::all_of(step.when.begin(), step.when.end(), is_masked);
  return is_pad ? step.operands[0] : id;
}

// Its own mask is that of all lanes then.
bool DotWriter::is_zero_outside(StepId id, const Block& rows, const Block& columns) const {
  const Step& step = dot_.nest.steps[loaded_of(id)];
  if (step.kind != Step::Kind::kLoad) return false;
  const auto has = [&](const Block& block) {
    return block.axis.axis == kNoAxis || dot_.nest.space.mentions(step.offset, block.axis.axis);
  };
  return has(rows) && has(columns);
}

Value DotWriter::operand(StepEmitter& emitter, StepId id, const Block& rows, const Block& columns) {
  const Step& step = dot_.nest.steps[id];
  if (step.kind == Step::Kind::kCompute && step.op == TensorOp::kCast) {
    const Step& inner = dot_.nest.steps[step.operands[0]];
    if (const auto tile = tile_of(emitter, inner, rows, columns)) return lang::cast(*tile, step.element);
  }
  if (const auto tile = tile_of(emitter, step, rows, columns)) return *tile;
  bind(emitter, rows, 1);
  bind(emitter, columns, 0);
  // Beyond the ends nothing may count, and along an axis that is none only the first does.
  const Value zero = lang::cast(lang::full({}, 0, ElementType::kI32), step.element);
  Value value = is_zero_outside(id, rows, columns) ? emitter.value(loaded_of(id)) : emitter.value_or(id, zero);
  for (const auto& [block, expand] : {std::pair(&rows, 1), std::pair(&columns, 0)}) {
    if (block->axis.axis != kNoAxis) continue;
    value = lang::where(lang::expand_dims(lang::arange(0, block->size), expand) == 0, value, zero);
  }
  return lang::broadcast_to(value, {rows.size, columns.size});
}

void DotWriter::write() {
  const Value m_extent = extent(dot_.m), n_extent = extent(dot_.n), k_extent = extent(dot_.k);
  const Value tiles_m = lang::cdiv(m_extent, bm_), tiles_n = lang::cdiv(n_extent, bn_);
  const Value tiles = tiles_m * tiles_n;
  lang::grid(dot_.programs.empty() ? tiles : tiles * places(dot_.programs));
  Value program = lang::program_id(0);
  programs_.resize(dot_.programs.size());
  if (!dot_.programs.empty()) {
    Value rest = program / tiles;
    program = program % tiles;
    for (size_t i = dot_.programs.size(); i-- > 0;) {
      programs_[i] = lang::cast(i == 0 ? rest : rest % extent(dot_.programs[i]), ElementType::kI64);
      if (i > 0) rest = rest / extent(dot_.programs[i]);
    }
  }
  bind_programs(scalars_);
  const auto [i, j] = lang::grouped_order(program, tiles_m, tiles_n, group_);
  const Value m0 = i * bm_, n0 = j * bn_;
  const Block m{dot_.m, bm_, lang::cast(m0, ElementType::kI64), m0};
  const Block n{dot_.n, bn_, lang::cast(n0, ElementType::kI64), n0};

  const ElementType type = dot_.nest.steps[dot_.a].element;
  const ElementType sum_type =
      dsl::is_float(type) ? (type == ElementType::kF64 ? type : ElementType::kF32) : ElementType::kI32;
  const auto& attrs = context_.graph.attrs(context_.graph.main().nodes[context_.group().anchors[0]]);
  const auto precision =
      type == ElementType::kF32 ? static_cast<lang::Precision>(graph::int_attr(attrs, 5)) : lang::Precision::kIeee;
  lang::Var sum = lang::zeros(sum_type, {bm_, bn_});
  const auto add_block = [&](const Value& pass, const Value& k0) {
    const Block k{dot_.k, bk_, lang::cast(k0, ElementType::kI64), k0};
    StepEmitter of_a(context_.graph, dot_.nest, arguments_), of_b(context_.graph, dot_.nest, arguments_);
    for (StepEmitter* each : {&of_a, &of_b}) {
      bind_programs(*each);
      if (pass.valid()) bind_loops(*each, pass);
    }
    const Value a = operand(of_a, dot_.a, m, k), b = operand(of_b, dot_.b, k, n);
    sum = lang::dot(a, b, sum, precision);
  };
  if (dot_.loops.empty()) {
    for (const Value& k0 : lang::range(0, k_extent, bk_).stages(3)) add_block({}, k0);
  } else {  // one loop, that what it loads may be under way all the time
    const Value blocks = lang::cdiv(k_extent, bk_);
    for (const Value& block : lang::range(0, places(dot_.loops) * blocks).stages(3)) {
      const Value pass = block / blocks;
      add_block(pass, (block - pass * blocks) * bk_);
    }
  }
  StepEmitter result(context_.graph, dot_.nest, arguments_);
  bind_programs(result);
  bind(result, m, 1);
  bind(result, n, 0);
  const ElementType element =
      context_.type(context_.graph.main().nodes[context_.group().anchors[0]].first_result).element;
  // Without an axis there is nothing to have lanes: all others of its block are 0.
  Value product = sum;
  if (dot_.n.axis == kNoAxis) product = lang::expand_dims(lang::sum(product, 1), 1);
  if (dot_.m.axis == kNoAxis) product = lang::expand_dims(lang::sum(product, 0), 0);
  if (dot_.m.axis == kNoAxis && dot_.n.axis == kNoAxis) product = lang::sum(lang::sum(product, 1), 0);
  result.set_anchor(0, lang::cast(product, element));
  for (const Stored& store : dot_.stores) result.store(store.value, store.offset, store.step);
}

// Blocks of a product on a GPU, from the largest; the first of which a device's multiprocessors have one each is taken.
struct GpuBlocks {
  int64_t m, n, k, warps, stages;
};
constexpr GpuBlocks kF32Blocks[] = {{128, 64, 32, 4, 3}, {64, 64, 32, 4, 3}, {32, 64, 32, 4, 3}, {32, 32, 32, 4, 3}};
constexpr GpuBlocks kNarrowBlocks[] = {{128, 128, 64, 4, 3}, {64, 128, 64, 4, 3}, {64, 64, 64, 4, 3}};
// As the tuner found them on an H200 (autotune/tuned/nvidia-h200.jsonl).
constexpr GpuBlocks kHopperBlocks[] = {
    {128, 256, 64, 8, 4}, {128, 128, 64, 8, 4}, {64, 128, 128, 4, 4}, {64, 64, 128, 4, 4}};
constexpr GpuBlocks kFewRows[] = {{16, 128, 128, 4, 3}, {16, 64, 128, 4, 4}, {16, 32, 128, 4, 4}};
constexpr int64_t kManyBlocks = 100;    // of the 108 to 132 multiprocessors of large devices
constexpr int64_t kUsualExtent = 2048;  // of a dim

dsl::ConstexprValues gpu_defaults(const DotNest& dot, std::span<const GpuBlocks> blocks) {
  const auto usual = [](const Expr& extent) { return extent.as_constant().value_or(kUsualExtent); };
  const auto cut = [](const Expr& extent, int64_t block) { return std::max<int64_t>(16, block_for(extent, block)); };
  int64_t batch = 1;
  for (const FlatAxis& axis : dot.programs) batch *= usual(axis.extent);
  for (const GpuBlocks& each : blocks) {
    const int64_t m = cut(dot.m.extent, each.m), n = cut(dot.n.extent, each.n);
    const int64_t count = batch * ((usual(dot.m.extent) + m - 1) / m) * ((usual(dot.n.extent) + n - 1) / n);
    if (count < kManyBlocks && &each != &blocks.back()) continue;
    return {{"BM", m},
            {"BN", n},
            {"BK", cut(dot.k.extent, each.k)},
            {"num_warps", each.warps},
            {"num_stages", each.stages}};
  }
  return {};
}

void set_gpu_defaults(dsl::Kernel& kernel, const DotNest& dot, ElementType type) {
  const bool is_f32 = type == ElementType::kF32;
  const auto others = is_f32 ? std::span<const GpuBlocks>(kF32Blocks) : std::span<const GpuBlocks>(kNarrowBlocks);
  kernel.target_defaults["cuda"] = kernel.target_defaults["amd"] = gpu_defaults(dot, others);
  if (is_f32) return;
  kernel.target_defaults["amd"].erase("num_stages");
  // That one has no units for products: operands lie in LDS as f32, of which it has room for half as many.
  dsl::ConstexprValues& widened = kernel.target_defaults["amd:gfx906"] = kernel.target_defaults["amd"];
  widened["BK"] = std::min<int64_t>(widened["BK"], 32);
  const auto rows = dot.m.extent.as_constant();
  const bool is_low = rows && *rows <= 16;
  kernel.target_defaults["cuda:sm_90a"] =
      gpu_defaults(dot, is_low ? std::span<const GpuBlocks>(kFewRows) : std::span<const GpuBlocks>(kHopperBlocks));
}

// On CPUs, where the usual blocks do not come out even: some of one length each, columns in whole vectors. What is left
// over would be padding, and a block of few rows packs as many columns as another.
void set_cpu_defaults(dsl::Kernel& kernel, const DotNest& dot) {
  constexpr int64_t kUsual = 256, kMostColumns = 416, kVector = 16, kRows = 128;
  const auto cut = [](int64_t extent, int64_t most) {
    const int64_t blocks = (extent + most - 1) / most;
    return ((extent + blocks - 1) / blocks + kVector - 1) / kVector * kVector;
  };
  const auto is_uneven = [](const std::optional<int64_t>& extent) {
    return extent && *extent > kUsual && *extent % kUsual != 0;
  };
  dsl::ConstexprValues& values = kernel.target_defaults["cpu"];
  if (const auto m = dot.m.extent.as_constant(); m && *m > kRows && *m % kRows != 0) {
    const int64_t blocks = (*m + kRows - 1) / kRows;
    values["BM"] = (*m + blocks - 1) / blocks;
  }
  if (const auto n = dot.n.extent.as_constant(); is_uneven(n)) values["BN"] = cut(*n, kMostColumns);
  if (const auto k = dot.k.extent.as_constant(); is_uneven(k)) values["BK"] = cut(*k, kUsual);
  if (values.empty()) kernel.target_defaults.erase("cpu");
}

// Without what would change the order of sums: parts of them, and on CPUs single rows in place of blocks; a row or a
// column alone is summed up by lanes along K.
std::vector<dsl::SpaceAxis> space_of(const DotNest& dot, const dsl::ConstexprValues& defaults) {
  std::vector<dsl::SpaceAxis> out = lang::kernels::product_space();
  std::erase_if(out,
                [](const dsl::SpaceAxis& axis) { return axis.name == dsl::kSplitK || axis.name == dsl::kStreamK; });
  const bool is_row = dot.m.extent == Expr(1), is_column = dot.n.extent == Expr(1);
  for (dsl::SpaceAxis& axis : lang::kernels::cpu_product_space(true)) {
    axis.target = "cpu";
    if (axis.name == "BM") std::erase(axis.values, 1);
    const bool is_kept = (axis.name == "BM" && is_row) || (axis.name == "BN" && is_column) ||
                         (axis.name == "BK" && (is_row || is_column));
    if (is_kept) axis.values = {defaults.at(axis.name)};
    out.push_back(std::move(axis));
  }
  return out;
}

}  // namespace

Result<WrittenKernel> write_dot(const GroupContext& context) {
  auto dot = dot_nest(context);
  if (!dot) return dot.error();
  std::vector<StepId> wanted{dot->a, dot->b};
  for (const Stored& store : dot->stores) wanted.push_back(store.step);
  const ConstParam consts[] = {{"BM", block_for(dot->m.extent, 128)},
                               {"BN", block_for(dot->n.extent, 256)},
                               {"BK", block_for(dot->k.extent, 256)},
                               {"GROUP", 8}};
  Signature signature = signature_of(dot->nest, dot->stores, wanted, consts);
  auto kernel =
      dsl::trace_kernel(group_name(context.graph, context.group(), context.grouping, context.number), signature.params,
                        [&](const dsl::TracedParams& params) { DotWriter(context, *dot, signature, params).write(); });
  if (!kernel) return kernel.error();
  kernel->options.fuse_precision = true;
  set_cpu_defaults(*kernel, *dot);
  set_gpu_defaults(*kernel, *dot, dot->nest.steps[dot->a].element);
  auto defaults = dsl::complete_constexprs(*kernel, {}, "cpu");
  if (!defaults) return defaults.error();
  kernel->space = space_of(*dot, *defaults);
  WrittenKernel out{{std::move(*kernel), {}}, std::move(signature.arguments)};
  out.indices = indices_of(dot->nest);
  return out;
}

}  // namespace kiln::planner
