// Launches of kernels: arguments with a kind become those of the kernel's parameters.
#include <array>
#include <cmath>

#include "arrays.h"
#include "errors.h"
#include "kiln/dsl/ir.h"
#include "run_options.h"

namespace kiln::c {
namespace {

class Arguments {
 public:
  // Errors name the parameter, with what it is and what was given.
  Result<void> read(const FunctionObject& function, const Place& place, const kiln_argument* from, size_t count);
  std::span<const dsl::Argument> all() const { return all_; }

 private:
  std::array<dsl::Argument, 32> inline_;  // enough for any ordinary kernel
  std::vector<dsl::Argument> heap_;
  std::span<const dsl::Argument> all_;
};

Error wrong_argument(const dsl::Kernel& kernel, size_t index, const std::string& what) {
  const dsl::Param& param = kernel.params[index];
  return invalid_argument("kernel `" + kernel.name + "`: argument " + std::to_string(index) + " (`" + param.name +
                          "`, " + to_string(param.type, kernel.expr_names()) + "): " + what);
}

Result<dsl::Argument> pointer_argument(const dsl::Kernel& kernel, size_t index, const Place& place,
                                       const kiln_argument& from) {
  const dsl::ElementType element = kernel.params[index].type.element;
  if (from.kind != KILN_ARG_POINTER) return wrong_argument(kernel, index, "the parameter is an array, not a number");
  if (from.type != KILN_NO_TYPE && from.type != type_of(element)) {
    const char* given = kiln_type_name(from.type);
    return wrong_argument(kernel, index, "the array is of " + text_or(given, "no type that is known"));
  }
  if (from.extent < -1) return wrong_argument(kernel, index, "its extent is " + std::to_string(from.extent));
  if (Place{from.device, from.device == KILN_HOST ? 0 : from.ordinal} != place) {
    return wrong_argument(
        kernel, index,
        "it lies on " + place_text({from.device, from.ordinal}) + ", and this runs on " + place_text(place));
  }
  if (from.value.pointer == nullptr && from.extent != 0) return wrong_argument(kernel, index, "the array is NULL");
  if (reinterpret_cast<uintptr_t>(from.value.pointer) % static_cast<size_t>(dsl::info(element).bytes) != 0) {
    return wrong_argument(kernel, index, "the array is not aligned to its elements");
  }
  return dsl::Argument{from.value.pointer, from.extent < 0 ? dsl::kUnknownExtent : from.extent, 0};
}

Result<dsl::Argument> scalar_argument(const dsl::Kernel& kernel, size_t index, const kiln_argument& from) {
  const dsl::ElementType element = kernel.params[index].type.element;
  if (dsl::is_float(element)) {
    if (from.kind != KILN_ARG_FLOAT) return wrong_argument(kernel, index, "the parameter is a float");
    return dsl::Argument{nullptr, 0, dsl::bits_from_double(element, from.value.f)};
  }
  if (from.kind == KILN_ARG_UINT && from.value.u > INT64_MAX) {
    if (element == dsl::ElementType::kU64) return dsl::Argument{nullptr, 0, from.value.u};
    return wrong_argument(kernel, index, "its type does not have " + std::to_string(from.value.u));
  }
  if (from.kind != KILN_ARG_INT && from.kind != KILN_ARG_UINT) {
    return wrong_argument(kernel, index, "the parameter is an int");
  }
  if (!dsl::int_fits(element, from.value.i)) {
    return wrong_argument(kernel, index, "its type does not have " + std::to_string(from.value.i));
  }
  return dsl::Argument{nullptr, 0, dsl::bits_from_int(element, from.value.i)};
}

Result<void> Arguments::read(const FunctionObject& function, const Place& place, const kiln_argument* from,
                             size_t count) {
  if (auto fine = check_pointer(from, count, "arguments"); !fine) return fine;
  const dsl::Kernel& kernel = function.fn.kernel();
  if (count != kernel.params.size()) {
    return invalid_argument("kernel `" + kernel.name + "` takes " + std::to_string(kernel.params.size()) +
                            " arguments, not " + std::to_string(count));
  }
  if (count > inline_.size()) heap_.resize(count);
  const std::span<dsl::Argument> out = count > inline_.size() ? std::span(heap_) : std::span(inline_).first(count);
  for (size_t i = 0; i < count; ++i) {
    auto argument = kernel.params[i].type.pointer ? pointer_argument(kernel, i, place, from[i])
                                                  : scalar_argument(kernel, i, from[i]);
    if (!argument) return argument.error();
    out[i] = *argument;
  }
  all_ = out;
  return {};
}

struct KnownLaunchOptions {
  client::LaunchOptions options;
  Pinned<StreamObject> stream;

  Result<void> read(const kiln_launch_options* given, Place& place) {
    if (given == nullptr) return {};
    auto known = read_options(given, "kiln_launch_options");
    if (!known) return known.error();
    if (known->threads < 0) return invalid_argument("`threads` is " + std::to_string(known->threads));
    options.threads = known->threads;
    if (known->grid_is_set != 0) options.grid = {known->grid[0], known->grid[1], known->grid[2]};
    options.print = print_to(known->print, known->print_data);
    if (known->stream == nullptr) return {};
    auto on = pin<StreamObject>(known->stream, "stream");
    if (!on) return on.error();
    stream = std::move(*on);
    options.stream = &stream->stream;
    if (stream->place.device != place.device) {
      return invalid_argument("the stream is of " + place_text(stream->place) + ", and the function runs on " +
                              place_text(place));
    }
    place = stream->place;
    return {};
  }
};

}  // namespace

extern "C" {

kiln_status kiln_function_launch(kiln_function* fn, const kiln_argument* arguments, size_t count,
                                 const kiln_launch_options* options) {
  return guarded([&]() -> Result<void> {
    auto object = pin<FunctionObject>(fn, "fn");
    if (!object) return object.error();
    Place place = (*object)->place;
    KnownLaunchOptions known;
    if (auto read = known.read(options, place); !read) return read;
    Arguments given;
    if (auto read = given.read(**object, place, arguments, count); !read) return read;
    return (*object)->fn.launch(given.all(), known.options);
  });
}

kiln_status kiln_function_prepare(kiln_function* fn, const kiln_argument* arguments, size_t count) {
  return guarded([&]() -> Result<void> {
    auto object = pin<FunctionObject>(fn, "fn");
    if (!object) return object.error();
    Arguments given;
    if (auto read = given.read(**object, (*object)->place, arguments, count); !read) return read;
    return (*object)->fn.prepare(given.all());
  });
}

kiln_status kiln_function_config(kiln_function* fn, const kiln_argument* arguments, size_t count, kiln_bytes** text) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(text, "text"); !fine) return fine;
    auto object = pin<FunctionObject>(fn, "fn");
    if (!object) return object.error();
    Arguments given;
    if (arguments != nullptr || count > 0) {
      if (auto read = given.read(**object, (*object)->place, arguments, count); !read) return read;
    }
    std::string lines;
    for (const auto& [name, value] : (*object)->fn.config(given.all())) {
      lines += name + "=" + std::to_string(value) + "\n";
    }
    give<BytesObject>(text, std::move(lines));
    return {};
  });
}

kiln_status kiln_function_metadata(kiln_function* fn, kiln_bytes** json) {
  return guarded([&]() -> Result<void> {
    if (auto fine = check_pointer(json, "json"); !fine) return fine;
    auto object = pin<FunctionObject>(fn, "fn");
    if (!object) return object.error();
    give<BytesObject>(json, abi::write_metadata((*object)->fn.metadata()));
    return {};
  });
}

}  // extern "C"

}  // namespace kiln::c
