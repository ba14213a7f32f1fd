#include "reports.h"

#include <cstring>

#include "kiln/dsl/outside.h"
#include "kiln/dsl/verify.h"

namespace kiln::client {
namespace {

using nlohmann::json;

constexpr int64_t kMaxElements = int64_t{1} << 31;  // of a printed value

SourcePlace place_of(const json& report) {
  SourcePlace out;
  out.file = report.value("file", "");
  out.line = report.value("line", 0u);
  out.column = report.value("column", 0u);
  return out;
}

dsl::PrintedValue value_of(const json& value) {
  const auto type = dsl::parse_element_type(value.at("type").get<std::string>());
  if (!type) throw std::invalid_argument("a printed value of an unknown type");
  dsl::PrintedValue out{*type, value.at("shape").get<std::vector<int64_t>>(), {}};
  int64_t count = 1;
  for (int64_t extent : out.shape) {
    if (extent < 1 || extent > kMaxElements / count) throw std::invalid_argument("a printed value of a bad shape");
    count *= extent;
  }
  return out;
}

std::array<uint32_t, 3> split_program(uint64_t program, const std::array<uint32_t, 3>& grid) {
  return {static_cast<uint32_t>(program % grid[0]), static_cast<uint32_t>(program / grid[0] % grid[1]),
          static_cast<uint32_t>(program / grid[0] / grid[1])};
}

std::string problem_of(const dsl::Kernel& kernel, const CheckInfo& check, int32_t code, const kiln_failure& failure,
                       std::span<const dsl::Argument> arguments) {
  const std::string lane = std::to_string(failure.lane), index = std::to_string(failure.index);
  if (code == KILN_ASSERT_FAILED) return check.message + "; false at lane " + lane;
  if (check.extent >= 0) {
    return "index " + index + " of lane " + lane + " is outside 0…" + std::to_string(check.extent - 1);
  }
  if (failure.parameter >= kernel.params.size()) {
    return "the address of lane " + lane + " is outside every buffer that it may point into";
  }
  return dsl::outside_text(kernel.params[failure.parameter].name, arguments[failure.parameter], failure.index);
}

}  // namespace

Result<Reports> parse_reports(const json& metadata) try {
  Reports out;
  for (const json& check : metadata.value("checks", json::array())) {
    out.checks.push_back({check.at("op").get<std::string>(), check.value("message", ""), place_of(check),
                          check.value("extent", int64_t{-1})});
  }
  for (const json& print : metadata.value("prints", json::array())) {
    PrintInfo info{print.at("message").get<std::string>(), place_of(print), {}};
    for (const json& value : print.at("values")) info.values.push_back(value_of(value));
    out.prints.push_back(std::move(info));
  }
  return out;
} catch (const std::exception& bad) {  // nlohmann's, of another kind of value than expected
  return internal_error(std::string("bad checks or prints: ") + bad.what());
}

Error failure_of(const dsl::Kernel& kernel, const Reports& reports, int32_t code, const kiln_failure& failure,
                 const std::array<uint32_t, 3>& grid, std::span<const dsl::Argument> arguments) {
  const bool known = code == KILN_ASSERT_FAILED || code == KILN_OUT_OF_BOUNDS;
  if (!known || failure.check >= reports.checks.size()) {
    return internal_error("kernel `" + kernel.name + "` failed with code " + std::to_string(code));
  }
  const CheckInfo& check = reports.checks[failure.check];
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

dsl::PrintRecord print_record(const PrintInfo& print, const std::array<uint32_t, 3>& grid, uint64_t program,
                              const void* const* values) {
  dsl::PrintRecord out{print.message, "", split_program(program, grid), print.values};
  if (print.place.line > 0) {
    out.location = print.place.file + ":" + std::to_string(print.place.line) + ":" + std::to_string(print.place.column);
  }
  for (size_t i = 0; i < out.values.size(); ++i) {
    dsl::PrintedValue& value = out.values[i];
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
