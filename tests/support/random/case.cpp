#include "random/case.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/text.h"

namespace kiln::random_kernel {

using dsl::ElementType;
using dsl::Kernel;

namespace {

size_t bytes_of(ElementType type) { return static_cast<size_t>(dsl::info(type).bytes); }

uint64_t special_float(ElementType type, Random& random) {
  // The bits of the smallest and largest numbers, by the width of the mantissa.
  const int bits = dsl::info(type).bits;
  const uint64_t sign = random() % 2 << (bits - 1);
  switch (random() % 6) {
    case 0:
      return sign;
    case 1:
      return sign | (1 + random() % 3);  // the smallest subnormals
    case 2:
      return dsl::bits_from_double(type, random() % 2 ? INFINITY : -INFINITY);
    case 3:
      return dsl::bits_from_double(type, std::nan(""));
    case 4:
      return sign | (dsl::bits_from_double(type, type == ElementType::kF8E4M3 ? 448.0 : INFINITY) - 1);  // the largest
    default: {
      static constexpr double kNumbers[] = {1,     0.5,     2.5, 3.5,  127.5, 255.5, -129,
                                            65504, 65519.9, 1e9, -3e9, 3e5,   1e-30};
      return dsl::bits_from_double(type, kNumbers[random() % std::size(kNumbers)]);
    }
  }
}

// The largest f8 of e4m3 is not below an infinity; clear what is a NaN there.
uint64_t whole_float(ElementType type, Random& random) {
  if (random() % 4 == 0) return special_float(type, random) & ((~uint64_t{0}) >> (64 - dsl::info(type).bits));
  std::normal_distribution<double> normal;
  return dsl::bits_from_double(type, normal(random));
}

uint64_t whole_int(ElementType type, Random& random) {
  const int bits = dsl::info(type).bits;
  const uint64_t mask = ~uint64_t{0} >> (64 - bits), top = uint64_t{1} << (bits - 1);
  if (random() % 4 != 0) return random() & mask;
  const uint64_t values[] = {0, 1, mask, top, top - 1, 2, 7, top + 1, 63};
  return values[random() % std::size(values)] & mask;
}

}  // namespace

uint64_t element_at(ElementType type, const Input& input, size_t index) {
  uint64_t bits = 0;
  std::memcpy(&bits, input.buffer.data() + index * bytes_of(type), bytes_of(type));
  return bits;
}

void set_element(ElementType type, Input& input, size_t index, uint64_t bits) {
  std::memcpy(input.buffer.data() + index * bytes_of(type), &bits, bytes_of(type));
}

size_t element_count(ElementType type, const Input& input) { return input.buffer.size() / bytes_of(type); }

Input zeros(ElementType type, size_t count) { return {std::vector<std::byte>(count * bytes_of(type)), 0, true}; }

Input elements(ElementType type, const std::vector<uint64_t>& bits) {
  Input out = zeros(type, bits.size());
  for (size_t i = 0; i < bits.size(); ++i) set_element(type, out, i, bits[i]);
  return out;
}

Input scalar(uint64_t bits) { return {{}, bits, false}; }

uint64_t random_bits(ElementType type, Content content, Random& random) {
  if (type == ElementType::kI1) return random() % 2;
  if (content == Content::kWhole) return dsl::is_float(type) ? whole_float(type, random) : whole_int(type, random);
  if (!dsl::is_float(type)) {
    const auto number = static_cast<int64_t>(random() % 16);
    return dsl::bits_from_int(type, content == Content::kTame && dsl::info(type).is_signed ? number - 8 : number);
  }
  if (content == Content::kCounts) return dsl::bits_from_double(type, static_cast<double>(random() % 17) - 8);
  std::normal_distribution<double> normal;
  return dsl::bits_from_double(type, std::fmin(std::fmax(normal(random), -4), 4));
}

Input random_buffer(ElementType type, size_t count, Content content, Random& random) {
  Input out = zeros(type, count);
  for (size_t i = 0; i < count; ++i) set_element(type, out, i, random_bits(type, content, random));
  return out;
}

Result<Kernel> instantiated(const Case& test) { return dsl::instantiate(test.kernel, test.config, test.facts); }

Result<std::array<uint32_t, 3>> grid_of(const Kernel& kernel, const std::vector<Input>& inputs) {
  dsl::Bindings bindings;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    const dsl::ElementTypeInfo& type = dsl::info(kernel.params[i].type.element);
    if (inputs[i].is_buffer || type.is_float) {
      bindings.params.emplace_back();
    } else {
      const int shift = 64 - type.bits;
      const uint64_t high = inputs[i].bits << shift;
      bindings.params.emplace_back(type.is_signed ? static_cast<int64_t>(high) >> shift
                                                  : static_cast<int64_t>(high >> shift));
    }
  }
  return dsl::evaluate_grid(kernel.grid, bindings);
}

Result<std::vector<Input>> interpreted(const Case& test) {
  auto kernel = instantiated(test);
  if (!kernel) return kernel.error();
  std::vector<Input> out = test.inputs;
  auto grid = grid_of(*kernel, out);
  if (!grid) return grid.error();
  std::vector<dsl::Argument> arguments;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t count = element_count(kernel->params[i].type.element, out[i]);
    arguments.push_back({out[i].buffer.data(), static_cast<int64_t>(count), out[i].bits});
  }
  if (auto done = dsl::interpret(*kernel, arguments, *grid); !done) return done.error();
  return out;
}

std::string reproducer(const Case& test) {
  auto hex = [](uint64_t bits) {
    char text[24];
    std::snprintf(text, sizeof text, "%s%llx", bits < 10 ? "" : "0x", static_cast<unsigned long long>(bits));
    return std::string(text);
  };
  std::string out = "const Case test = make_case(R\"kiln(\n" + dsl::print(test.kernel) + ")kiln\",\n  {";
  for (const auto& [name, value] : test.config) out += "{\"" + name + "\", " + std::to_string(value) + "}, ";
  out += "}, {";
  for (const dsl::ParamFact fact : test.facts) {
    static constexpr const char* kNames[] = {"kNone", "kAlign16", "kMultiple16", "kOne", "kMultiple8"};
    out += std::string("ParamFact::") + kNames[static_cast<size_t>(fact)] + ", ";
  }
  out += "}, {\n";
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    const Input& input = test.inputs[i];
    const ElementType type = test.kernel.params[i].type.element;
    const std::string name = "*dsl::parse_element_type(\"" + std::string(dsl::info(type).name) + "\")";
    const size_t count = element_count(type, input);
    bool all_zero = true;
    for (const std::byte byte : input.buffer) all_zero = all_zero && byte == std::byte{0};
    if (!input.is_buffer) {
      out += "    scalar(" + hex(input.bits) + "),";
    } else if (all_zero) {
      out += "    zeros(" + name + ", " + std::to_string(count) + "),";
    } else {
      out += "    elements(" + name + ", {";
      for (size_t k = 0; k < count; ++k) out += (k == 0 ? "" : ", ") + hex(element_at(type, input, k));
      out += "}),";
    }
    out += "  // " + test.kernel.params[i].name + "\n";
  }
  return out + "});\n";
}

Case make_case(const std::string& text, dsl::ConstexprValues config, dsl::Facts facts, std::vector<Input> inputs) {
  auto kernel = dsl::parse(text, "reproducer.kiln");
  if (!kernel) return {};
  return {std::move(*kernel), std::move(config), std::move(facts), std::move(inputs)};
}

}  // namespace kiln::random_kernel
