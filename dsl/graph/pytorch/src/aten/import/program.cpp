// graph_of(): a program of ATen calls as a graph, one call after the other.
//
//   find     the function of each call; all overloads that have none are one error each
//   live     from the last call to the first: which results something reads, so that nothing else is made
//   trace    inputs, then calls by their functions, then outputs; errors are collected with the call and its place
#include <algorithm>
#include <charconv>
#include <exception>
#include <map>
#include <unordered_set>

#include "aten/aten.h"
#include "aten/import/functions.h"
#include "ir/prune.h"
#include "kiln/graph/graph.h"

namespace kiln::graph {
namespace aten {
namespace {

// What to do for a call.
struct Step {
  enum class Kind : uint8_t { kUnknown, kNothing, kDim, kTensors };
  Kind kind = Kind::kUnknown;
  const Function* function = nullptr;
  bool in_place = false;
  bool live = false;
};

// Calls that check what tracing knows already.
bool checks_only(std::string_view name) {
  return name.starts_with("_assert") || name.starts_with("sym_constrain_range") || name == "_print";
}
bool is_dim(std::string_view name) {
  return name == "sym_size.int" || name == "sym_numel" || name == "sym_storage_offset" || name == "sym_stride.int";
}

// "add_.Tensor" is "add.Tensor" in place; "" where it is none.
std::string without_underscore(std::string_view name) {
  const size_t end = std::min(name.find('.'), name.size());
  if (end < 2 || name[end - 1] != '_' || name[end - 2] == '_') return {};
  return std::string(name.substr(0, end - 1)) + std::string(name.substr(end));
}

Step step_of(std::string_view target) {
  const std::string_view name = table_name(target);
  if (name.empty()) return {};
  if (checks_only(name)) return {Step::Kind::kNothing};
  if (is_dim(name)) return {Step::Kind::kDim};
  const std::string plain = without_underscore(name);
  const Function* function = find_function(name);
  if (!function && !plain.empty()) function = find_function(plain);
  if (!function) return {};
  return {Step::Kind::kTensors, function, !plain.empty()};
}

// Whether it asks for random numbers.
bool draws(const AtenCall& call, const Step& step) {
  if (step.kind != Step::Kind::kTensors || !step.live) return false;
  if ((step.function->traits & kDraws) == 0) return false;
  return std::none_of(call.arguments.begin(), call.arguments.end(), [](const auto& argument) {
    const auto* flag = std::get_if<bool>(&argument.second.value);
    const auto* p = std::get_if<double>(&argument.second.value);
    const bool train = argument.first == "train" || argument.first == "training";
    return (train && flag && !*flag) || (argument.first == "dropout_p" && p && *p == 0);
  });
}

void read_names(const AtenArgument& argument, std::unordered_set<std::string_view>& names) {
  if (const auto* name = std::get_if<AtenName>(&argument.value)) names.insert(name->name);
  if (const auto* list = std::get_if<AtenList>(&argument.value)) {
    for (const AtenArgument& each : *list) read_names(each, names);
  }
}

// "model.py:12 in forward" and "model.py:12:5" as a line of a file; unknown where it is no such thing.
Location location_of(GraphBuilder& builder, std::string_view place) {
  place = place.substr(0, place.find(' '));
  uint32_t numbers[2] = {0, 0};  // of line and column, from behind
  int count = 0;
  while (count < 2) {
    const size_t colon = place.rfind(':');
    if (colon == std::string_view::npos) break;
    const char* end = place.data() + place.size();
    const auto [rest, problem] = std::from_chars(place.data() + colon + 1, end, numbers[count]);
    if (problem != std::errc() || rest != end) break;
    place = place.substr(0, colon);
    ++count;
  }
  if (count == 0 || place.empty()) return {};
  return {builder.add_file(place), numbers[count - 1], count == 2 ? numbers[0] : 0};
}

class Import {
 public:
  explicit Import(const AtenProgram& program)
      : program_(program), builder_(program.name.empty() ? "program" : program.name), trace_(builder_, Location()) {}

  Result<Graph> run() {
    find();
    if (errors_.empty()) {
      mark_live();
      add_inputs();
    }
    if (errors_.empty()) {
      for (size_t i = 0; i < steps_.size(); ++i) make(i);
      add_outputs();
    }
    if (errors_.empty()) donate();
    if (errors_.empty()) return prune(builder_.take());
    std::string message;
    for (const std::string& each : errors_) message += (message.empty() ? "" : "\n") + each;
    return error(ErrorCode::kVerifyFailed, message);
  }

 private:
  static constexpr size_t kMaxErrors = 20;

  void report(const std::string& message) {
    if (errors_.size() < kMaxErrors) errors_.push_back(message);
  }
  // What the trace reported since, behind the name of its cause.
  void collect(const std::string& cause, const Location& place = {}) {
    if (!trace_.failed()) return;
    const std::string all = trace_.error().message;
    if (all.size() == reported_) return;
    std::string message = all.substr(reported_ == 0 ? 0 : reported_ + 1);
    reported_ = all.size();
    const std::string where = trace_.graph().location_text(place) + ": ";
    if (message.starts_with(where)) message.erase(0, where.size());
    report(cause + ": " + message);
  }
  std::string name_of(size_t call) const {
    const std::string& place = program_.calls[call].place;
    return program_.calls[call].target + ", call " + std::to_string(call) + (place.empty() ? "" : ", " + place);
  }

  void find();
  void mark_live();
  void add_inputs();
  void make(size_t call);
  void make_tensors(const AtenCall& call, const Step& step, const Location& place);
  void make_dim(const AtenCall& call);
  void define_results(const AtenCall& call, const Step& step, Results results, const Location& place);
  void write_in_place(const AtenCall& call, const AtenName& first, Tensor value);
  void add_outputs();
  void donate();
  std::vector<bool> wanted(const AtenCall& call) const;
  Values::MakeView view_of(const AtenCall& call, const Step& step, size_t result, const Location& place);

  const AtenProgram& program_;
  GraphBuilder builder_;
  Trace trace_;
  Values values_;
  Arguments::Around around_{trace_, values_, {}, 0};
  std::vector<Step> steps_;
  std::unordered_set<std::string_view> read_;  // names that live calls and outputs read
  std::vector<std::string> errors_;
  size_t reported_ = 0;  // bytes of the trace's error
};

void Import::find() {
  std::map<std::string_view, std::pair<size_t, size_t>> unknown;  // by target: the first call, how many
  steps_.reserve(program_.calls.size());
  for (size_t i = 0; i < program_.calls.size(); ++i) {
    const AtenCall& call = program_.calls[i];
    steps_.push_back(step_of(call.target));
    if (steps_.back().kind == Step::Kind::kUnknown) ++unknown.try_emplace(call.target, i, 0).first->second.second;
  }
  for (const auto& [target, where] : unknown) {
    const auto& [first, count] = where;
    const AtenRow* row = find_aten("aten::" + std::string(table_name(target)));
    errors_.push_back(name_of(first) + ": there is no graph of it" + (row ? ", for " + std::string(row->note) : "") +
                      " (" + std::to_string(count) + (count == 1 ? " call)" : " calls)"));
  }
}

void Import::mark_live() {
  for (const auto& [name, tensor] : program_.outputs) read_.insert(tensor);
  for (size_t i = steps_.size(); i > 0; --i) {
    const AtenCall& call = program_.calls[i - 1];
    Step& step = steps_[i - 1];
    const bool writes = step.in_place || (step.function && (step.function->traits & kWrites) != 0);
    step.live = writes || std::any_of(call.results.begin(), call.results.end(),
                                      [&](const std::string& each) { return read_.contains(each); });
    if (step.kind == Step::Kind::kNothing || !step.live) continue;
    for (const auto& [key, argument] : call.arguments) read_names(argument, read_);
  }
}

void Import::add_inputs() {
  for (const AtenInput& input : program_.inputs) {
    const std::string what = "input " + input.name;
    auto shape = trace_.exprs(input.shape, what, SourceLocation());
    if (input.name.empty()) report("an input without a name");
    Tensor tensor;
    if (shape) tensor = trace_.add_input(input.name, {input.element, std::move(*shape)}, SourceLocation());
    collect(what);
    values_.define(input.name, tensor);
  }
  bool random = false;
  for (size_t i = 0; i < steps_.size(); ++i) random = random || draws(program_.calls[i], steps_[i]);
  if (!random) return;
  around_.random.seed = trace_.add_input("seed", {u64, {}}, SourceLocation());
  around_.random.offset = trace_.add_input("offset", {u64, {}}, SourceLocation());
  collect("random numbers, whose inputs are `seed` and `offset`");
}

std::vector<bool> Import::wanted(const AtenCall& call) const {
  std::vector<bool> out;
  for (const std::string& each : call.results) out.push_back(!each.empty() && read_.contains(each));
  return out;
}

void Import::make(size_t number) {
  const AtenCall& call = program_.calls[number];
  const Step& step = steps_[number];
  if (!step.live || step.kind == Step::Kind::kNothing) return;
  const Location place = location_of(builder_, call.place);
  trace_.set_location(place);
  if (step.kind == Step::Kind::kDim) {
    make_dim(call);
  } else {
    make_tensors(call, step, place);
  }
  if (trace_.failed()) collect(name_of(number), place);
}

// Tensors of graphs lie in row-major order.
void Import::make_dim(const AtenCall& call) {
  Arguments arguments(call, around_, {});
  const Shape shape = arguments.tensor("self").shape();
  const std::string_view name = table_name(call.target);
  Dim out = 0;
  if (name == "sym_numel") out = product(shape);
  if (name == "sym_size.int" || name == "sym_stride.int") {
    const auto axis = static_cast<size_t>(arguments.axis("dim", static_cast<int>(shape.size())));
    if (axis < shape.size()) {
      out = name == "sym_size.int" ? shape[axis] : product(std::span(shape).subspan(axis + 1));
    }
  }
  if (!call.results.empty()) values_.define(call.results[0], arguments.ok() ? Value(out) : Value(Tensor()));
}

void Import::make_tensors(const AtenCall& call, const Step& step, const Location& place) {
  Arguments arguments(call, around_, step.in_place ? std::vector<bool>() : wanted(call));
  Results results = step.function->make(arguments);
  // What is wrong within an op leaves invalid tensors; within a call, perhaps valid ones of other shapes.
  if (!arguments.ok()) results.assign(results.size(), Tensor());
  const AtenName* first = first_tensor(call);
  if (step.in_place && !first) arguments.fail("in place of no tensor");
  results.resize(std::max(results.size(), call.results.size()));
  if (step.in_place && first && step.function->sharing == Sharing::kNothing) {
    write_in_place(call, *first, results.empty() ? Tensor() : results[0]);
  } else {
    define_results(call, step, std::move(results), place);
  }
}

void Import::write_in_place(const AtenCall& call, const AtenName& first, Tensor value) {
  auto before = values_.read(first.name);
  if (!before) return;  // reported by who read it
  const auto* old = std::get_if<Tensor>(&*before);
  if (old && value.valid()) value = broadcast_to(like(value, *old), old->shape());
  if (auto done = values_.write(first.name, value); !done) trace_.report(SourceLocation(), done.error().message);
  if (!call.results.empty()) values_.define_same(call.results[0], first.name);
}

void Import::define_results(const AtenCall& call, const Step& step, Results results, const Location& place) {
  const AtenName* first = first_tensor(call);
  const Sharing sharing = step.function->sharing;
  for (size_t i = 0; i < call.results.size(); ++i) {
    if (call.results[i].empty()) continue;
    if (!first || sharing == Sharing::kNothing || !results[i].valid()) {
      values_.define(call.results[i], results[i]);
    } else {
      values_.define_view(call.results[i], results[i], first->name, view_of(call, step, i, place),
                          sharing == Sharing::kPerhaps);
    }
  }
  // `unsqueeze_` and its like: the name itself is a view of what it was.
  if (step.in_place && first && !results.empty() && results[0].valid()) {
    values_.define_view(first->name, results[0], first->name, view_of(call, step, 0, place), false);
  }
}

Values::MakeView Import::view_of(const AtenCall& call, const Step& step, size_t result, const Location& place) {
  return [this, &call, function = step.function, result, place](const Tensor& shown) -> std::optional<Tensor> {
    trace_.set_location(place);
    Arguments arguments(call, around_, {}, shown);
    const Results out = function->make(arguments);
    if (!arguments.ok() || result >= out.size() || !out[result].valid()) return std::nullopt;
    return out[result];
  };
}

void Import::add_outputs() {
  trace_.set_location(Location());
  if (program_.outputs.empty()) report("a program without outputs");
  for (const auto& [name, tensor] : program_.outputs) {
    const std::string what = "output " + name;
    const auto value = values_.read(tensor);
    if (!value) {
      report(what + ": " + value.error().message);
      continue;
    }
    const Tensor out = std::holds_alternative<Dim>(*value) ? extent(std::get<Dim>(*value)) : std::get<Tensor>(*value);
    if (!trace_.usable(out, what, SourceLocation())) {
      if (errors_.empty()) report(what + ": `" + tensor + "` is a result that a graph does not have");
      continue;
    }
    if (auto added = builder_.add_output(name, out.id()); !added) report(what + ": " + added.error().message);
  }
}

void Import::donate() {
  for (uint32_t i = 0; i < program_.inputs.size(); ++i) {
    const AtenInput& input = program_.inputs[i];
    if (input.donated_to.empty()) continue;
    const auto& outputs = program_.outputs;
    const auto found = std::find_if(outputs.begin(), outputs.end(),
                                    [&](const auto& output) { return output.first == input.donated_to; });
    if (found == outputs.end()) {
      report("input " + input.name + ": it is donated to " + input.donated_to + ", which is no output");
      continue;
    }
    auto done = builder_.donate(i, static_cast<uint32_t>(found - outputs.begin()));
    if (!done) report("input " + input.name + ": " + done.error().message);
  }
}

}  // namespace
}  // namespace aten

Result<Graph> graph_of(const AtenProgram& program) {
  try {
    return aten::Import(program).run();
  } catch (const std::exception& thrown) {  // sizes that no memory has
    return invalid_argument("program " + program.name + ": " + thrown.what());
  }
}

bool is_known_aten(std::string_view target) { return aten::step_of(target).kind != aten::Step::Kind::kUnknown; }

}  // namespace kiln::graph
