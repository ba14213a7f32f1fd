#include "arguments.h"

#include <charconv>
#include <cstdlib>

#include "commands.h"
#include "kiln/dsl/decimal.h"
#include "kiln/wire/files.h"

namespace kiln::cli {
namespace {

using dsl::ElementType;

Error bad_argument(const std::string& text, const std::string& what) { return invalid_argument(text + ": " + what); }

std::string type_text(const dsl::Kernel& kernel, const dsl::Param& param) {
  return to_string(param.type, kernel.expr_names());
}

// "f32[4096,1024]"; "f32" or "f32[]" is an array of rank 0.
Result<client::NpyArray> parse_fresh(const std::string& text, const std::string& spec, ElementType wanted) {
  const size_t open = spec.find('[');
  const auto type = dsl::parse_element_type(spec.substr(0, open));
  if (!type) return bad_argument(text, "`" + spec.substr(0, open) + "` is not an element type");
  if (*type != wanted) {
    return bad_argument(text, "the parameter points to " + std::string(dsl::info(wanted).name) + ", not " +
                                  std::string(dsl::info(*type).name));
  }
  std::vector<int64_t> shape;
  if (open != std::string::npos) {
    if (spec.back() != ']') return bad_argument(text, "write a shape as [4096,1024]");
    const std::string extents = spec.substr(open + 1, spec.size() - open - 2);
    for (const std::string& item : extents.empty() ? std::vector<std::string>() : split(extents, ',')) {
      int64_t extent = 0;
      auto [end, status] = std::from_chars(item.data(), item.data() + item.size(), extent);
      if (status != std::errc() || end != item.data() + item.size() || extent < 0 || shape.size() == 32) {
        return bad_argument(text, "`" + item + "` is not an extent");
      }
      shape.push_back(extent);
    }
  }
  auto array = client::NpyArray::make(std::move(shape), *type);
  if (!array) return bad_argument(text, array.error().message);
  return array;
}

// What follows "name=@": IN, IN>@OUT, or OUT:TYPE[SHAPE].
Result<RunArgument> parse_array(const std::string& text, const std::string& value, const dsl::Param& param) {
  RunArgument out;
  const size_t arrow = value.find(">@");
  const size_t colon = value.rfind(':');
  const bool fresh = arrow == std::string::npos && colon != std::string::npos &&
                     dsl::parse_element_type(value.substr(colon + 1, value.find('[', colon) - colon - 1));
  if (fresh) {
    auto array = parse_fresh(text, value.substr(colon + 1), param.type.element);
    if (!array) return array.error();
    out.array = std::move(*array);
    out.output = value.substr(0, colon);
  } else {
    auto array = client::read_npy(value.substr(0, arrow));
    if (!array) return array.error();
    if (array->dtype != client::npy_dtype(param.type.element)) {
      return bad_argument(text, "the file holds '" + array->dtype + "', but `" + param.name + "` points to " +
                                    std::string(dsl::info(param.type.element).name) + " ('" +
                                    client::npy_dtype(param.type.element) + "')");
    }
    out.array = std::move(*array);
    if (arrow != std::string::npos) out.output = value.substr(arrow + 2);
  }
  const bool wants_output = fresh || arrow != std::string::npos;
  if (wants_output && out.output.empty()) return bad_argument(text, "the output file has no name");
  if (wants_output && param.readonly) return bad_argument(text, "the kernel never writes through `" + param.name + "`");
  if (wants_output) {
    if (auto done = wire::check_writable(out.output); !done) return done.error();
  }
  return out;
}

template <class T>
bool parse_whole(const std::string& value, T& out) {
  auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), out);
  return status == std::errc() && end == value.data() + value.size();
}

Result<RunArgument> parse_scalar(const dsl::Kernel& kernel, const std::string& text, const std::string& value,
                                 const dsl::Param& param) {
  const ElementType type = param.type.element;
  RunArgument out;
  int64_t integer = 0;
  uint64_t natural = 0;
  if (const auto bits = dsl::is_float(type) ? dsl::float_from_decimal(type, value) : std::nullopt) {
    out.bits = *bits;
    return out;
  }
  if (!dsl::is_float(type) && parse_whole(value, integer) &&
      (type == ElementType::kI1 ? integer == 0 || integer == 1 : dsl::int_fits(type, integer))) {
    out.bits = dsl::bits_from_int(type, integer);
    return out;
  }
  if (type == ElementType::kU64 && parse_whole(value, natural)) {
    out.bits = natural;
    return out;
  }
  return bad_argument(text, "`" + value.substr(0, 64) + "` is not a value of " + type_text(kernel, param));
}

Result<size_t> find_parameter(const dsl::Kernel& kernel, const std::string& text, const std::string& name) {
  if (auto index = kernel.find_param(name)) return *index;
  std::string hint = "kernel `" + kernel.name + "` has no parameter `" + name + "`";
  if (kernel.find_constexpr(name)) return bad_argument(text, hint + "; it is a constexpr: use --set " + text);
  std::vector<std::string> names;
  for (const dsl::Param& param : kernel.params) names.push_back(param.name);
  return bad_argument(text, hint + "; it has " + join(names));
}

}  // namespace

Result<std::vector<RunArgument>> parse_arguments(const dsl::Kernel& kernel, const std::vector<std::string>& texts) {
  std::vector<std::optional<RunArgument>> parsed(kernel.params.size());
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) return bad_argument(text, "write NAME=VALUE or NAME=@FILE.npy");
    const std::string value = text.substr(equals + 1);
    auto index = find_parameter(kernel, text, text.substr(0, equals));
    if (!index) return index.error();
    const dsl::Param& param = kernel.params[*index];
    if (parsed[*index]) return bad_argument(text, "`" + param.name + "` is given twice");
    const bool is_file = value.starts_with('@');
    if (is_file != param.type.pointer) {
      return bad_argument(text, "`" + param.name + "` is " + type_text(kernel, param) +
                                    (is_file ? "; write its value" : "; write @FILE.npy"));
    }
    auto argument = is_file ? parse_array(text, value.substr(1), param) : parse_scalar(kernel, text, value, param);
    if (!argument) return argument.error();
    parsed[*index] = std::move(*argument);
  }
  std::vector<std::string> missing;
  std::vector<RunArgument> out;
  for (size_t i = 0; i < parsed.size(); ++i) {
    if (!parsed[i])
      missing.push_back(kernel.params[i].name + " (" + type_text(kernel, kernel.params[i]) + ")");
    else
      out.push_back(std::move(*parsed[i]));
  }
  if (!missing.empty()) return invalid_argument("kernel `" + kernel.name + "`: missing arguments: " + join(missing));
  return out;
}

std::vector<client::Argument> launch_arguments(const dsl::Kernel& kernel, std::vector<RunArgument>& arguments) {
  std::vector<client::Argument> out;
  for (size_t i = 0; i < arguments.size(); ++i) {
    RunArgument& argument = arguments[i];
    if (kernel.params[i].type.pointer)
      out.push_back({argument.array.data(), argument.array.count(), 0});
    else
      out.push_back({nullptr, 0, argument.bits});
  }
  return out;
}

}  // namespace kiln::cli
