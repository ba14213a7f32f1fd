// CBOR to plan. The bytes may be anything: every number is checked here, so that a runner may rely on it.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "binary/cbor_reader.h"
#include "binary/custom_code.h"
#include "ir/expr_limits.h"
#include "ir/limits.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/expr_binary.h"
#include "kiln/graph/extents.h"
#include "kiln/graph/plan.h"
#include "plan/kernel_head.h"
#include "plan/plan_format.h"

namespace kiln::graph {
namespace {

class Decoder {
 public:
  Decoder(std::span<const std::byte> bytes, bool heads) : in_(bytes), heads_(heads) {}

  Plan run() {
    in_.record("the plan", kPlanFields);
    if (in_.text("the tag", kMaxName) != kPlanTag) throw BadBytes{"it is of another version"};
    plan_.name = in_.text("the name", kMaxName);
    plan_.target = in_.text("the target", kMaxName);
    each("dim", kMaxDims, [&] { plan_.dims.push_back(dim()); });
    each("input", kMaxNodes, [&] { plan_.inputs.push_back(tensor(plan_.inputs)); });
    each("output", kMaxNodes, [&] { plan_.outputs.push_back(tensor(plan_.outputs)); });
    if (in_.array("the donations") != plan_.outputs.size()) throw BadBytes{"there is not one donation an output"};
    for (size_t i = 0; i < plan_.outputs.size(); ++i) plan_.in_place.push_back(donation(i));
    each("kernel", kMaxNodes, [&] { plan_.kernels.push_back(kernel()); });
    // Constants come behind the buffers that name them.
    each("buffer", kMaxNodes, [&] { plan_.buffers.push_back(buffer()); });
    each("loop", kMaxNodes, [&] { plan_.loops.push_back(loop()); });
    each("launch", kMaxNodes, [&] { plan_.launches.push_back(launch()); });
    check_loops();
    each("constant", kMaxNodes, [&] {
      const auto bytes = in_.bytes("it");
      plan_.constants.emplace_back(bytes.begin(), bytes.end());
    });
    plan_.arena_bytes = expr("the arena's size");
    each("line of the log", kMaxNodes, [&] { plan_.log.push_back(in_.text("it", kMaxLine)); });
    if (!in_.at_end()) throw BadBytes{"there are bytes behind the plan"};
    check_constants();
    check_outputs();
    return std::move(plan_);
  }

 private:
  // Reads an array of items; what is wrong with one is said with its number.
  template <class Read>
  void each(const char* what, size_t most, Read read) {
    const size_t count = in_.array((std::string("the list of each ") + what).c_str(), most);
    for (size_t i = 0; i < count; ++i) {
      try {
        read();
      } catch (const BadBytes& bad) {
        throw BadBytes{std::string(what) + " " + std::to_string(i) + ": " + bad.what};
      }
    }
  }

  Expr expr(const char* what, size_t counters = 0) {
    if (in_.next_is_integer()) return Expr(in_.integer(what));
    auto out = dsl::read_expr(in_.item(what), plan_.dims.size() + counters, 0);
    if (!out) throw BadBytes{std::string(what) + ": " + out.error().message};
    return std::move(*out);
  }

  DimInfo dim() {
    in_.record("it", 4);
    DimInfo out;
    out.name = in_.text("its name", kMaxName);
    for (int64_t* number : {&out.low, &out.high, &out.multiple}) *number = in_.integer("its bound");
    if (const char* problem = dim_problem(out)) throw BadBytes{problem};
    if (!dim_names_.insert(out.name).second) throw BadBytes{"another has the name " + out.name};
    return out;
  }

  PlannedTensor tensor(const std::vector<PlannedTensor>& others) {
    const size_t size = in_.array("its fields", kMaxRank + 2);
    if (size < 2) throw BadBytes{"it lacks its element type"};
    PlannedTensor out;
    out.name = in_.text("its name", kMaxName);
    out.type.element = static_cast<ElementType>(in_.bits("its element type", dsl::kElementTypeCount - 1));
    for (size_t axis = 2; axis < size; ++axis) out.type.shape.push_back(expr("its extent"));
    if (const char* problem = type_problem(out.type, plan_.dims)) throw BadBytes{"its type " + std::string(problem)};
    // Sorted beside the list, since there may be many.
    std::set<std::string>& names = &others == &plan_.inputs ? input_names_ : output_names_;
    if (!names.insert(out.name).second) throw BadBytes{"another has the name " + out.name};
    return out;
  }

  uint32_t donation(size_t output) {
    const auto input = static_cast<uint32_t>(in_.bits("a donation", plan_.inputs.size())) - 1;
    if (input == kNone) return input;
    const std::string what = "input " + std::to_string(input);
    if (!donors_.insert(input).second) throw BadBytes{what + " is donated twice"};
    if (plan_.inputs[input].type != plan_.outputs[output].type) {
      throw BadBytes{what + " is donated to an output of another type"};
    }
    return input;
  }

  PlannedKernel kernel() {
    const size_t fields = in_.array("it", 3);
    if (fields < 2) throw BadBytes{"it lacks its constexprs"};
    const auto encoded = in_.bytes("its ops");
    std::optional<PlannedKernel> head;
    if (heads_) head = read_kernel_head(encoded);
    PlannedKernel out = head ? std::move(*head) : PlannedKernel();
    if (!head) {
      auto read = dsl::decode_kernel(encoded);
      if (!read) throw BadBytes{read.error().message};
      out.kernel = std::move(*read);
    }
    const size_t count = in_.array("its constexprs", 2 * kMaxListed);
    if (count % 2 != 0) throw BadBytes{"a constexpr lacks its value"};
    for (size_t i = 0; i < count; i += 2) {
      std::string name = in_.text("a constexpr's name", kMaxName);
      if (!out.constexprs.empty() && name <= out.constexprs.rbegin()->first) {
        throw BadBytes{"its constexprs are not in order"};
      }
      out.constexprs.emplace_hint(out.constexprs.end(), std::move(name), in_.integer("a constexpr's value"));
    }
    if (auto complete = dsl::complete_constexprs(out.kernel, out.constexprs, plan_.target); !complete) {
      throw BadBytes{complete.error().message};
    }
    if (fields == 3) {
      out.code = read_custom_code(in_);
      auto fine = dsl::check_custom_request({out.kernel, *out.code, plan_.target});
      if (!fine) throw BadBytes{fine.error().message};
    }
    return out;
  }

  PlannedBuffer buffer() {
    using Home = PlannedBuffer::Home;
    in_.record("it", 3);
    PlannedBuffer out;
    out.home = static_cast<Home>(in_.bits("its home", static_cast<uint64_t>(Home::kConstant)));
    switch (out.home) {
      case Home::kInput:
        out.index = in_.index("its input", plan_.inputs.size());
        break;
      case Home::kOutput:
        out.index = in_.index("its output", plan_.outputs.size());
        break;
      case Home::kArena:
        out.offset = expr("its offset");
        break;
      case Home::kConstant:
        out.index = in_.index("its constant", kMaxNodes);
        break;
    }
    out.bytes = expr("its size");
    return out;
  }

  PlannedLoop loop() {
    in_.record("it", 4);
    PlannedLoop out;
    out.first = static_cast<uint32_t>(in_.bits("its first launch", kMaxNodes));
    out.count = static_cast<uint32_t>(in_.bits("the number of its launches", kMaxNodes));
    out.length = expr("its length");
    out.counter = static_cast<uint32_t>(in_.bits("its counter", kMostCounters - 1));
    return out;
  }

  // As many as the loops around the launch that is read may have.
  size_t counters() const {
    size_t out = 0;
    for (const PlannedLoop& loop : plan_.loops) {
      const bool is_around = loop.first <= plan_.launches.size() && plan_.launches.size() - loop.first < loop.count;
      if (is_around) out = std::max<size_t>(out, loop.counter + 1);
    }
    return out;
  }

  // Each lies within those that are open where it begins, with a counter of its own.
  void check_loops() const {
    std::vector<const PlannedLoop*> open;
    uint32_t before = 0;
    for (const PlannedLoop& loop : plan_.loops) {
      const bool is_there = loop.count > 0 && loop.first < plan_.launches.size() &&
                            loop.count <= plan_.launches.size() - loop.first && loop.first >= before;
      while (!open.empty() && is_there && open.back()->first + open.back()->count <= loop.first) open.pop_back();
      const auto holds = [&](const PlannedLoop* outer) {
        return loop.first + loop.count <= outer->first + outer->count && loop.counter != outer->counter;
      };
      if (!is_there || !std::ranges::all_of(open, holds)) throw BadBytes{"the loops do not lie within each other"};
      before = loop.first;
      open.push_back(&loop);
    }
  }

  PlannedLaunch launch() {
    in_.record("it", 6);
    PlannedLaunch out;
    out.kernel = in_.index("its kernel", plan_.kernels.size());
    const std::vector<dsl::Param>& params = plan_.kernels[out.kernel].kernel.params;
    if (in_.array("its arguments") != params.size()) throw BadBytes{"it has not one argument a parameter"};
    for (const dsl::Param& param : params) {
      try {
        out.arguments.push_back(argument(param));
      } catch (const BadBytes& bad) {
        throw BadBytes{"parameter `" + param.name + "`: " + bad.what};
      }
    }
    out.name = in_.text("its name", kMaxLine);
    out.place = in_.text("its place", kMaxLine);
    out.moved = expr("its bytes");
    for (size_t left = in_.array("its ops", kMaxNodes); left > 0; --left) {
      out.ops.push_back(static_cast<uint32_t>(in_.bits("an op", kMaxNodes)));
    }
    return out;
  }

  PlannedArgument argument(const dsl::Param& param) {
    using Kind = PlannedArgument::Kind;
    PlannedArgument out;
    const size_t size = in_.array("it", 3);
    out.kind = static_cast<Kind>(in_.bits("its kind", static_cast<uint64_t>(Kind::kScalar)));
    if (size != (out.kind == Kind::kBuffer ? 3 : 2)) throw BadBytes{"it has another number of fields"};
    if (param.type.pointer != (out.kind == Kind::kBuffer)) throw BadBytes{"it is of another kind"};
    if (out.kind == Kind::kScalar) {
      if (!dsl::is_int(param.type.element)) throw BadBytes{"only an int's value may be an expression"};
      out.scalar = expr("its value", counters());
      return out;
    }
    out.buffer = in_.index("its buffer", plan_.buffers.size());
    out.offset = expr("its offset", counters());
    const auto home = plan_.buffers[out.buffer].home;
    const bool writable = home == PlannedBuffer::Home::kOutput || home == PlannedBuffer::Home::kArena;
    if (!writable && !param.readonly) throw BadBytes{"it may write to an input or a constant"};
    return out;
  }

  void check_constants() const {
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const PlannedBuffer& buffer = plan_.buffers[i];
      if (buffer.home != PlannedBuffer::Home::kConstant || buffer.index < plan_.constants.size()) continue;
      throw BadBytes{"buffer " + std::to_string(i) + ": its constant is out of range"};
    }
  }

  // Each output has one buffer, which a launch may write: nobody gets memory that nothing has been written to.
  void check_outputs() const {
    std::vector<bool> written(plan_.buffers.size());
    for (const PlannedLaunch& launch : plan_.launches) {
      const std::vector<dsl::Param>& params = plan_.kernels[launch.kernel].kernel.params;
      for (size_t i = 0; i < params.size(); ++i) {
        if (params[i].type.pointer && !params[i].readonly) written[launch.arguments[i].buffer] = true;
      }
    }
    std::vector<uint32_t> buffers(plan_.outputs.size(), 0);
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const PlannedBuffer& buffer = plan_.buffers[i];
      if (buffer.home == PlannedBuffer::Home::kOutput && written[i]) ++buffers[buffer.index];
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
      const bool is_empty = element_count(plan_.outputs[i].type.shape) == Expr();
      if (buffers[i] == 0 && !is_empty) throw BadBytes{"output " + std::to_string(i) + ": no launch writes it"};
    }
  }

  CborReader in_;
  const bool heads_;
  Plan plan_;
  std::set<std::string> dim_names_, input_names_, output_names_;
  std::set<uint32_t> donors_;
};

}  // namespace

namespace {

Result<Plan> decode_as(std::span<const std::byte> bytes, bool heads) {
  try {
    return Decoder(bytes, heads).run();
  } catch (const BadBytes& bad) {
    return invalid_argument("plan: " + bad.what);
  }
}

}  // namespace

Result<Plan> decode_plan(std::span<const std::byte> bytes) { return decode_as(bytes, false); }

Result<Plan> decode_plan_heads(std::span<const std::byte> bytes) { return decode_as(bytes, true); }

}  // namespace kiln::graph
