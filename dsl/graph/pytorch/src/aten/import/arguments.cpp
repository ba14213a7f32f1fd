#include "aten/import/arguments.h"

#include <algorithm>
#include <numeric>

namespace kiln::graph::aten {
namespace {

std::string_view kind_of(const AtenArgument& argument) {
  static constexpr std::string_view kNames[] = {"None",
                                                "a bool",
                                                "an int",
                                                "a float",
                                                "a word",
                                                "an element type",
                                                "an int known when the graph runs",
                                                "a tensor's name",
                                                "a list"};
  return kNames[argument.value.index()];
}

}  // namespace

std::string_view table_name(std::string_view target) {
  if (!target.starts_with("aten.")) return {};
  target.remove_prefix(5);
  if (target.ends_with(".default")) target.remove_suffix(8);
  return target;
}

const AtenName* first_tensor(const AtenCall& call) {
  for (const auto& [key, argument] : call.arguments) {
    if (key == "self") return std::get_if<AtenName>(&argument.value);
  }
  for (const auto& [key, argument] : call.arguments) {
    const auto* list = std::get_if<AtenList>(&argument.value);
    const AtenArgument* first = list ? (list->empty() ? nullptr : &list->front()) : &argument;
    if (first && std::holds_alternative<AtenName>(first->value)) return &std::get<AtenName>(first->value);
  }
  return nullptr;
}

Arguments::Arguments(const AtenCall& call, Around& around, std::vector<bool> wanted, Tensor shown)
    : call_(call), around_(around), wanted_(std::move(wanted)), shown_(shown) {
  if (shown.valid()) first_ = first_tensor(call);
}

std::string_view Arguments::base() const {
  const std::string_view name = table_name(call_.target);
  return name.substr(0, name.find('.'));
}

void Arguments::fail(const std::string& message) {
  if (ok()) around_.trace.report(SourceLocation(), message);
  failed_ = true;
}

const AtenArgument* Arguments::given(std::string_view name) const {
  for (const auto& [key, argument] : call_.arguments) {
    if (key == name) return std::holds_alternative<std::monostate>(argument.value) ? nullptr : &argument;
  }
  return nullptr;
}

const AtenArgument* Arguments::needed(std::string_view name, bool has_default) {
  const AtenArgument* out = given(name);
  if (!out && !has_default) fail("the argument `" + std::string(name) + "` is missing");
  return out;
}

void Arguments::wrong(std::string_view name, const AtenArgument& argument, std::string_view wanted) {
  fail("the argument `" + std::string(name) + "` is " + std::string(kind_of(argument)) + ", not " +
       std::string(wanted));
}

std::optional<Value> Arguments::value_of(const AtenName& name) {
  if (&name == first_) return Value(shown_);
  const Result<Value> found = around_.values.read(name.name);
  if (!found) {
    fail(found.error().message);
    return std::nullopt;
  }
  const Tensor* tensor = std::get_if<Tensor>(&*found);
  if (tensor && !tensor->valid()) {
    // After an error its echo; without one a result that no function makes.
    if (!around_.trace.failed()) fail("`" + name.name + "` is a result that a graph does not have");
    failed_ = true;
    return std::nullopt;
  }
  return *found;
}

std::optional<Term> Arguments::term_of(std::string_view name, const AtenArgument& argument) {
  if (const auto* flag = std::get_if<bool>(&argument.value)) return Term(*flag);
  if (const auto* number = std::get_if<int64_t>(&argument.value)) return Term(*number);
  if (const auto* number = std::get_if<double>(&argument.value)) return Term(*number);
  if (const auto* dim = std::get_if<Dim>(&argument.value)) return Term(*dim);
  if (const auto* tensor = std::get_if<AtenName>(&argument.value)) {
    const auto value = value_of(*tensor);
    if (!value) return std::nullopt;
    return std::visit([](const auto& each) { return Term(each); }, *value);
  }
  wrong(name, argument, "a tensor or a number");
  return std::nullopt;
}

Term Arguments::term(std::string_view name) {
  const AtenArgument* argument = needed(name, false);
  const auto out = argument ? term_of(name, *argument) : std::nullopt;
  return out.value_or(Term(Tensor()));
}

Tensor Arguments::tensor(std::string_view name) {
  const Term out = term(name);
  if (!ok()) return {};
  return tensor_of(out);
}

Operand Arguments::optional(std::string_view name) { return has(name) ? Operand(tensor(name)) : Operand(); }

std::vector<const AtenArgument*> Arguments::listed(const AtenArgument& argument) const {
  std::vector<const AtenArgument*> out;
  if (const auto* list = std::get_if<AtenList>(&argument.value)) {
    for (const AtenArgument& each : *list) out.push_back(&each);
  } else {
    out.push_back(&argument);
  }
  return out;
}

std::vector<std::optional<Tensor>> Arguments::optional_tensors(std::string_view name) {
  std::vector<std::optional<Tensor>> out;
  const AtenArgument* argument = needed(name, false);
  if (!argument) return out;
  for (const AtenArgument* each : listed(*argument)) {
    const auto* tensor = std::get_if<AtenName>(&each->value);
    if (std::holds_alternative<std::monostate>(each->value) || (tensor && tensor->name.empty())) {
      out.emplace_back();
      continue;
    }
    const auto term = term_of(name, *each);
    if (!term) return {};
    out.emplace_back(tensor_of(*term));
  }
  return out;
}

std::vector<Tensor> Arguments::tensors(std::string_view name) {
  std::vector<Tensor> out;
  for (const auto& each : optional_tensors(name)) {
    if (!each) fail("the argument `" + std::string(name) + "` has None among its tensors");
    out.push_back(each.value_or(Tensor()));
  }
  return ok() ? out : std::vector<Tensor>();
}

std::optional<Dim> Arguments::dim_of(std::string_view name, const AtenArgument& argument) {
  if (const auto* number = std::get_if<int64_t>(&argument.value)) return Dim(*number);
  if (const auto* flag = std::get_if<bool>(&argument.value)) return Dim(*flag ? 1 : 0);
  if (const auto* dim = std::get_if<Dim>(&argument.value)) return *dim;
  if (const auto* tensor = std::get_if<AtenName>(&argument.value)) {
    const auto value = value_of(*tensor);
    if (value && std::holds_alternative<Dim>(*value)) return std::get<Dim>(*value);
    if (value)
      fail("the argument `" + std::string(name) + "` is a tensor, whose elements are not known before the graph runs");
    return std::nullopt;
  }
  wrong(name, argument, "an int");
  return std::nullopt;
}

Dim Arguments::dim(std::string_view name, std::optional<Dim> otherwise) {
  const AtenArgument* argument = needed(name, otherwise.has_value());
  if (!argument) return otherwise.value_or(Dim(1));
  return dim_of(name, *argument).value_or(Dim(1));
}

int64_t Arguments::integer(std::string_view name, std::optional<int64_t> otherwise) {
  const AtenArgument* argument = needed(name, otherwise.has_value());
  if (!argument) return otherwise.value_or(1);
  const auto out = dim_of(name, *argument);
  const auto number = out ? known(*out) : std::nullopt;
  if (out && !number) fail("the argument `" + std::string(name) + "` must be a known int");
  return number.value_or(1);
}

double Arguments::real(std::string_view name, std::optional<double> otherwise) {
  const AtenArgument* argument = needed(name, otherwise.has_value());
  if (!argument) return otherwise.value_or(1);
  if (const auto* number = std::get_if<double>(&argument->value)) return *number;
  return static_cast<double>(integer(name));
}

bool Arguments::flag(std::string_view name, std::optional<bool> otherwise) {
  const AtenArgument* argument = needed(name, otherwise.has_value());
  if (!argument) return otherwise.value_or(false);
  if (const auto* flag = std::get_if<bool>(&argument->value)) return *flag;
  if (const auto* number = std::get_if<int64_t>(&argument->value)) return *number != 0;
  wrong(name, *argument, "a bool");
  return false;
}

std::string Arguments::word(std::string_view name, std::string otherwise) {
  const AtenArgument* argument = given(name);
  if (!argument) return otherwise;
  if (const auto* word = std::get_if<std::string>(&argument->value)) return *word;
  wrong(name, *argument, "a word");
  return otherwise;
}

ElementType Arguments::element(std::string_view name, ElementType otherwise) {
  const AtenArgument* argument = given(name);
  if (!argument) return otherwise;
  if (const auto* element = std::get_if<ElementType>(&argument->value)) return *element;
  wrong(name, *argument, "an element type");
  return otherwise;
}

Shape Arguments::shape(std::string_view name) {
  Shape out;
  const AtenArgument* argument = needed(name, false);
  if (!argument) return out;
  for (const AtenArgument* each : listed(*argument)) out.push_back(dim_of(name, *each).value_or(Dim(1)));
  return out;
}

Ints Arguments::ints(std::string_view name, std::optional<Ints> otherwise) {
  const AtenArgument* argument = needed(name, otherwise.has_value());
  if (!argument) return otherwise.value_or(Ints());
  Ints out;
  for (const Dim& each : shape(name)) {
    const auto number = known(each);
    if (!number) fail("the argument `" + std::string(name) + "` must be a list of known ints");
    out.push_back(number.value_or(1));
  }
  return out;
}

std::vector<double> Arguments::reals(std::string_view name) {
  std::vector<double> out;
  const AtenArgument* argument = needed(name, false);
  if (!argument) return out;
  for (const AtenArgument* each : listed(*argument)) {
    const auto* number = std::get_if<double>(&each->value);
    const auto* whole = std::get_if<int64_t>(&each->value);
    if (!number && !whole) wrong(name, *each, "a number");
    out.push_back(number ? *number : whole ? static_cast<double>(*whole) : 0);
  }
  return out;
}

std::vector<bool> Arguments::flags(std::string_view name, std::vector<bool> otherwise) {
  const AtenArgument* argument = given(name);
  if (!argument) return otherwise;
  std::vector<bool> out;
  for (const AtenArgument* each : listed(*argument)) {
    const auto* flag = std::get_if<bool>(&each->value);
    if (!flag) wrong(name, *each, "a bool");
    out.push_back(flag && *flag);
  }
  if (out.size() < otherwise.size()) fail("the argument `" + std::string(name) + "` is too short");
  out.resize(otherwise.size());
  return out;
}

Ints Arguments::repeated(std::string_view name, size_t count, std::optional<int64_t> otherwise) {
  Ints out = otherwise ? ints(name, Ints{*otherwise}) : ints(name);
  if (out.size() == 1) out.resize(count, out[0]);
  if (out.size() != count) {
    fail("the argument `" + std::string(name) + "` has " + std::to_string(out.size()) + " numbers for " +
         std::to_string(count) + " axes");
    out.resize(count, 1);
  }
  return out;
}

// --- axes ---

int Arguments::axis(int64_t given, int rank) {
  const int64_t count = std::max(rank, 1), place = given < 0 ? given + count : given;
  if (place < 0 || place >= count) {
    fail("there is no axis " + std::to_string(given) + " among " + std::to_string(rank));
    return 0;
  }
  return static_cast<int>(place);
}

int Arguments::axis(std::string_view name, int rank, std::optional<int64_t> otherwise) {
  const int64_t given = integer(name, otherwise);
  return ok() ? axis(given, rank) : 0;
}

Axes Arguments::axes(std::string_view name, int rank) {
  const Ints given = ints(name, Ints());
  Axes out;
  for (const int64_t each : given) {
    out.push_back(axis(each, rank));
    if (std::find(out.begin(), out.end() - 1, out.back()) != out.end() - 1) {
      fail("axis " + std::to_string(each) + " is named twice");
    }
  }
  if (given.empty() || rank == 0) {
    out.resize(static_cast<size_t>(rank));
    std::iota(out.begin(), out.end(), 0);
  }
  return out;
}

void Arguments::write(std::string_view name, const Tensor& value) {
  const AtenArgument* argument = given(name);
  const AtenName* tensor = argument ? std::get_if<AtenName>(&argument->value) : nullptr;
  if (!ok() || !tensor) return;
  if (auto done = around_.values.write(tensor->name, value); !done) fail(done.error().message);
}

// --- random numbers ---

Random Arguments::draw(const Dim& words) {
  if (!around_.random.seed.valid()) {
    fail("random numbers where the program has none");
    return {};
  }
  const Dim before = around_.words_drawn;
  around_.words_drawn = before + cdiv(words, 4);
  const auto none = known(before);
  if (none && *none == 0) return around_.random;
  return {around_.random.seed, around_.random.offset + extent(before, u64)};
}

}  // namespace kiln::graph::aten
