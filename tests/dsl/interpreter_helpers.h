// Runs one op on lists of elements: a kernel in text form loads a tile for each operand and stores the result.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"

namespace kiln::dsl::testing {

// Elements as bits, of one type.
struct Elements {
  ElementType type;
  std::vector<uint64_t> bits;

  std::vector<std::byte> memory() const {
    const size_t size = static_cast<size_t>(info(type).bytes);
    std::vector<std::byte> out(bits.size() * size);
    for (size_t i = 0; i < bits.size(); ++i) std::memcpy(out.data() + i * size, &bits[i], size);
    return out;
  }
  static Elements from_memory(ElementType type, const std::vector<std::byte>& memory) {
    const size_t size = static_cast<size_t>(info(type).bytes);
    Elements out{type, std::vector<uint64_t>(memory.size() / size)};
    for (size_t i = 0; i < out.bits.size(); ++i) std::memcpy(&out.bits[i], memory.data() + i * size, size);
    return out;
  }
};

inline Elements f32s(const std::vector<float>& values) {
  Elements out{ElementType::kF32, {}};
  for (float value : values) out.bits.push_back(std::bit_cast<uint32_t>(value));
  return out;
}
inline Elements f64s(const std::vector<double>& values) {
  Elements out{ElementType::kF64, {}};
  for (double value : values) out.bits.push_back(std::bit_cast<uint64_t>(value));
  return out;
}
inline Elements ints(ElementType type, const std::vector<int64_t>& values) {
  Elements out{type, {}};
  for (int64_t value : values) out.bits.push_back(bits_from_int(type, value));
  return out;
}
inline float float_of(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
inline double double_of(uint64_t bits) { return std::bit_cast<double>(bits); }

inline Kernel instantiated(const std::string& text) {
  auto kernel = parse(text, "k.kiln");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message << "\n" << text;
  if (!kernel) return {};
  // Contraction would replace the op under test in some kernels.
  kernel->options.contract = false;
  auto concrete = instantiate(*kernel, {}, {});
  EXPECT_TRUE(concrete.ok()) << concrete.error().message << "\n" << text;
  return concrete ? std::move(*concrete) : Kernel{};
}

// `op` names its operands %x0, %x1, …; `shapes` and `result_shape` as in text, "4, 2". The result has `count` elements.
inline Elements run_shaped(const std::string& op, const std::vector<Elements>& inputs,
                           const std::vector<std::string>& shapes, ElementType result, const std::string& result_shape,
                           size_t count) {
  auto tile = [](const std::string& shape, const std::string& element) {
    return shape.empty() ? element : "tile<[" + shape + "], " + element + ">";
  };
  auto pointers = [&](const std::string& name, const std::string& shape, const std::string& element, size_t n) {
    // Row-major addresses: an arange of all elements, loaded flat, has no reshape; so the kernel reads element lists
    // of rank 1 and shapes are made by two broadcast index tiles.
    std::string rows = "1", cols = std::to_string(n);
    if (const size_t comma = shape.find(','); comma != std::string::npos) {
      rows = shape.substr(0, comma);
      cols = shape.substr(comma + 2);
    }
    const std::string p = "%" + name + "_";
    std::string out;
    if (shape.empty()) return out;
    const bool flat = shape.find(',') == std::string::npos;
    out += p + "c = arange {start = 0, end = " + cols + "} : tile<[" + cols + "], i32>\n";
    if (flat) {
      out += p + "i = cast " + p + "c {to = i64} : tile<[" + cols + "], i64>\n";
    } else {
      out += p + "r = arange {start = 0, end = " + rows + "} : tile<[" + rows + "], i32>\n";
      out += p + "w = constant {value = " + cols + ", type = i32} : i32\n";
      out += p + "ws = splat " + p + "w {shape = [" + rows + "]} : tile<[" + rows + "], i32>\n";
      out += p + "rw = mul " + p + "r, " + p + "ws : tile<[" + rows + "], i32>\n";
      out += p + "re = expand_dims " + p + "rw {axis = 1} : tile<[" + rows + ", 1], i32>\n";
      out += p + "ce = expand_dims " + p + "c {axis = 0} : tile<[1, " + cols + "], i32>\n";
      out += p + "rb = broadcast " + p + "re {shape = [" + shape + "]} : tile<[" + shape + "], i32>\n";
      out += p + "cb = broadcast " + p + "ce {shape = [" + shape + "]} : tile<[" + shape + "], i32>\n";
      out += p + "i = add " + p + "rb, " + p + "cb : tile<[" + shape + "], i32>\n";
    }
    out += p + "s = splat %" + name + " {shape = [" + shape + "]} : tile<[" + shape + "], ptr<" + element + ">>\n";
    out += p + "p = addptr " + p + "s, " + p + "i : tile<[" + shape + "], ptr<" + element + ">>\n";
    return out;
  };
  std::string params, body;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = "a" + std::to_string(i), element(info(inputs[i].type).name);
    params += "%" + name + ": ptr<" + element + "> readonly, ";
    body += pointers(name, shapes[i], element, inputs[i].bits.size());
    body += "%x" + std::to_string(i) + " = load %" + name + (shapes[i].empty() ? "" : "_p") + " : " +
            tile(shapes[i], element) + "\n";
  }
  const std::string element(info(result).name);
  body += "%z = " + op + " : " + tile(result_shape, element) + "\n";
  body += pointers("out", result_shape, element, count);
  body += std::string("store %out") + (result_shape.empty() ? "" : "_p") + ", %z\n";
  const Kernel kernel = instantiated("kernel t(" + params + "%out: ptr<" + element + ">) {\n" + body + "}\n");

  std::vector<std::vector<std::byte>> memory;
  for (const Elements& input : inputs) memory.push_back(input.memory());
  memory.emplace_back(count * static_cast<size_t>(info(result).bytes));
  std::vector<Argument> arguments;
  for (size_t i = 0; i < memory.size(); ++i) {
    const size_t size = static_cast<size_t>(info(i < inputs.size() ? inputs[i].type : result).bytes);
    arguments.push_back({memory[i].data(), static_cast<int64_t>(memory[i].size() / size), 0});
  }
  auto done = interpret(kernel, arguments, {1, 1, 1});
  EXPECT_TRUE(done.ok()) << done.error().message;
  return Elements::from_memory(result, memory.back());
}

// Elementwise ops on lists of equal length.
inline Elements run_op(const std::string& op, const std::vector<Elements>& inputs, ElementType result) {
  const size_t count = inputs.at(0).bits.size();
  return run_shaped(op, inputs, std::vector<std::string>(inputs.size(), std::to_string(count)), result,
                    std::to_string(count), count);
}

// What a run of run_text gave: the elements of %z, and the error's message if it failed.
struct Case {
  Elements out;
  std::string error;
};

// Lines that make %z, a tile<[count]> or (count 0) a scalar, from the tiles %x0, %x1, … of rank 1. Errors are returned.
// The inputs are parameters %p0, %p1, … in memory.
inline Case run_text(const std::string& lines, const std::vector<Elements>& inputs, ElementType result, size_t count,
                     const InterpretOptions& options = {}, bool debug = false) {
  auto pointers = [](const std::string& name, const std::string& element, size_t n) {
    const std::string extent = "[" + std::to_string(n) + "]", tile = "tile<" + extent + ", ";
    return name + "i = arange {start = 0, end = " + std::to_string(n) + "} : " + tile + "i32>\n" + name + "s = splat " +
           name + " {shape = " + extent + "} : " + tile + "ptr<" + element + ">>\n" + name + "q = addptr " + name +
           "s, " + name + "i : " + tile + "ptr<" + element + ">>\n";
  };
  std::string params, body;
  std::vector<std::vector<std::byte>> memory;
  std::vector<Argument> arguments;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string number = std::to_string(i), name = "%p" + number, element(info(inputs[i].type).name);
    const size_t n = inputs[i].bits.size();
    params += name + ": ptr<" + element + ">, ";
    body += pointers(name, element, n) + "%x" + number + " = load " + name + "q : tile<[" + std::to_string(n) + "], " +
            element + ">\n";
    memory.push_back(inputs[i].memory());
  }
  const std::string element(info(result).name);
  const size_t stored = count == 0 ? 1 : count;
  body += lines + "\n" + pointers("%out", element, stored) + (count == 0 ? "store %out, %z\n" : "store %outq, %z\n");
  Kernel kernel = instantiated("kernel t(" + params + "%out: ptr<" + element + ">) {\n" + body + "}\n");
  kernel.options.debug = debug;
  memory.emplace_back(stored * static_cast<size_t>(info(result).bytes));
  for (size_t i = 0; i < memory.size(); ++i) {
    arguments.push_back(
        {memory[i].data(), static_cast<int64_t>(i < inputs.size() ? inputs[i].bits.size() : stored), 0});
  }
  auto done = interpret(kernel, arguments, {1, 1, 1}, options);
  return {Elements::from_memory(result, memory.back()), done ? "" : done.error().message};
}

// Values that break careless arithmetic.
inline std::vector<double> special_values() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return {0.0,  -0.0, 1.0, -1.0, 0.5,   -2.5,  1.5,   2.5,    3.0,     -7.25, 100.0, -1e4,
          1e-3, 6e4,  7e4, 1e30, -1e38, 1e-40, 1e-45, 5e-324, 1.7e308, kInf,  -kInf, std::nan("")};
}

}  // namespace kiln::dsl::testing
