#include "reports.h"

#include <cstring>

#include "kiln/dsl/outside.h"
#include "kiln/dsl/verify.h"

namespace kiln::client {
namespace {

std::array<uint32_t, 3> split_program(uint64_t program, const std::array<uint32_t, 3>& grid) {
  return {static_cast<uint32_t>(program % grid[0]), static_cast<uint32_t>(program / grid[0] % grid[1]),
          static_cast<uint32_t>(program / grid[0] / grid[1])};
}

std::string problem_of(const dsl::Kernel& kernel, const abi::Check& check, int32_t code, const kiln_failure& failure,
                       std::span<const dsl::Argument> arguments) {
  const std::string lane = std::to_string(failure.lane), index = std::to_string(failure.index);
  if (code == KILN_ASSERT_FAILED) return check.message.value_or("") + "; false at lane " + lane;
  if (check.extent) {
    return "index " + index + " of lane " + lane + " is outside 0…" + std::to_string(*check.extent - 1);
  }
  if (failure.parameter >= kernel.params.size()) {
    return "the address of lane " + lane + " is outside every buffer that it may point into";
  }
  return dsl::outside_text(kernel.params[failure.parameter].name, arguments[failure.parameter], failure.index);
}

}  // namespace

Error failure_of(const dsl::Kernel& kernel, const Reports& reports, int32_t code, const kiln_failure& failure,
                 const std::array<uint32_t, 3>& grid, std::span<const dsl::Argument> arguments) {
  const bool known = code == KILN_ASSERT_FAILED || code == KILN_OUT_OF_BOUNDS;
  if (!known || failure.check >= reports.checks.size()) {
    return internal_error("kernel `" + kernel.name + "` failed with code " + std::to_string(code));
  }
  const abi::Check& check = reports.checks[failure.check];
  const auto [x, y, z] = split_program(failure.program, grid);
  const std::string program =
      " (program " + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
  // The op's place in the words of every other error about a line.
  dsl::Kernel source;
  source.name = kernel.name;
  source.files = {check.place.file};
  const dsl::Location loc{check.place.line > 0 ? 1u : 0u, check.place.line, check.place.column};
  return invalid_argument(
      dsl::diagnostic(source, loc, check.op + ": " + problem_of(kernel, check, code, failure, arguments) + program));
}

dsl::PrintRecord print_record(const abi::Print& print, const std::array<uint32_t, 3>& grid, uint64_t program,
                              const void* const* values) {
  dsl::PrintRecord out{print.message, "", split_program(program, grid), {}};
  if (print.place.line > 0) {
    out.location = print.place.file + ":" + std::to_string(print.place.line) + ":" + std::to_string(print.place.column);
  }
  for (size_t i = 0; i < print.values.size(); ++i) {
    dsl::PrintedValue& value = out.values.emplace_back();
    value.element = print.values[i].element;
    value.shape = print.values[i].shape;
    size_t count = 1;
    for (int64_t extent : value.shape) count *= static_cast<size_t>(extent);
    value.bits.resize(count);
    const auto bytes = static_cast<size_t>(dsl::info(value.element).bytes);
    for (size_t j = 0; j < count; ++j) {
      std::memcpy(&value.bits[j], static_cast<const std::byte*>(values[i]) + j * bytes, bytes);
    }
  }
  return out;
}

}  // namespace kiln::client
