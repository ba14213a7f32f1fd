// Runs kernels, given as text, on the interpreter, with elements as bits: what tests/support/reference speaks. Include
// as "run.h"; the names of both sides meet in namespace kiln::oracle.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "reference/types.h"

namespace kiln::oracle {

using reference::Bits;
using reference::Type;
using Column = std::vector<Bits>;
using Grid = std::array<uint32_t, 3>;

inline dsl::ElementType element(Type type) { return static_cast<dsl::ElementType>(type); }
inline std::string type_name(Type type) { return std::string(reference::name(type)); }

// A launch argument: the elements of a buffer, or one scalar.
struct Buffer {
  Type type;
  Column elements;
  bool scalar = false;
};

inline size_t bytes(Type type) { return static_cast<size_t>(std::max(reference::width(type), 8)) / 8; }

inline std::vector<std::byte> to_memory(const Buffer& buffer) {
  const size_t size = bytes(buffer.type);
  // An empty buffer still has an address.
  std::vector<std::byte> out(std::max<size_t>(buffer.elements.size() * size, 1));
  for (size_t i = 0; i < buffer.elements.size(); ++i) std::memcpy(out.data() + i * size, &buffer.elements[i], size);
  return out;
}

// The interpreter's checks but for races and aliasing, which cost time and which one program has no use for.
inline dsl::InterpretOptions quick() {
  dsl::InterpretOptions options;
  options.check_races = options.check_aliasing = false;
  return options;
}

// Parsed, verified and instantiated; a failure fails the test.
inline dsl::Kernel instantiated(const std::string& text, const dsl::ConstexprValues& config = {}) {
  auto kernel = dsl::parse(text, "k.kiln");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message << "\n" << text;
  if (!kernel) return {};
  auto concrete = dsl::instantiate(*kernel, config, {});
  EXPECT_TRUE(concrete.ok()) << concrete.error().message << "\n" << text;
  return concrete ? std::move(*concrete) : dsl::Kernel{};
}

// Runs an instantiated kernel; the buffers hold their new elements afterwards. The error's message, "" without one.
inline std::string try_run(const dsl::Kernel& kernel, std::vector<Buffer>& buffers, Grid grid = {1, 1, 1},
                           const dsl::InterpretOptions& options = {}) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<dsl::Argument> arguments;
  for (const Buffer& buffer : buffers) {
    memory.push_back(to_memory(buffer));
    if (buffer.scalar) {
      arguments.push_back({nullptr, 0, buffer.elements.at(0)});
    } else {
      arguments.push_back({memory.back().data(), static_cast<int64_t>(buffer.elements.size()), 0});
    }
  }
  auto done = dsl::interpret(kernel, arguments, grid, options);
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].scalar) continue;
    const size_t size = bytes(buffers[b].type);
    for (size_t i = 0; i < buffers[b].elements.size(); ++i) {
      std::memcpy(&buffers[b].elements[i], memory[b].data() + i * size, size);
    }
  }
  return done ? "" : done.error().message;
}

// The same from text, and it must succeed.
inline std::vector<Buffer> run(const std::string& text, std::vector<Buffer> buffers, Grid grid = {1, 1, 1},
                               const dsl::InterpretOptions& options = {}) {
  const std::string error = try_run(instantiated(text), buffers, grid, options);
  EXPECT_EQ(error, "") << text;
  return buffers;
}

// "tile<[4, 2], f32>", or "f32" without extents.
inline std::string tile(Type type, const std::vector<int64_t>& shape) {
  if (shape.empty()) return type_name(type);
  std::string out = "tile<[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return out + "], " + type_name(type) + ">";
}

// Lines that make %z from the tiles %x0, %x1, … of `count` elements of these types, for each of the columns' rows.
// `header` has options, one a line.
inline Column run_lines(const std::string& lines, const std::vector<Type>& types, const std::vector<Column>& columns,
                        Type result, const std::string& header = "") {
  constexpr size_t kLanes = 65536;
  const size_t total = columns.at(0).size();
  Column out;
  out.reserve(total);
  size_t kernel_lanes = 0;
  dsl::Kernel kernel;
  auto addresses = [](const std::string& p, Type type, const std::string& n) {
    const std::string tile_of = " : tile<[" + n + "], ptr<" + type_name(type) + ">>\n";
    return "%s" + p + " = splat %" + p + " {shape = [" + n + "]}" + tile_of + "%q" + p + " = addptr %s" + p + ", %i" +
           tile_of;
  };
  for (size_t start = 0; start < total; start += kLanes) {
    const size_t lanes = std::min(kLanes, total - start);
    if (lanes != kernel_lanes) {
      const std::string n = std::to_string(lanes);
      std::string text = "kernel k(", body = "%i = arange {start = 0, end = " + n + "} : tile<[" + n + "], i32>\n";
      for (size_t i = 0; i < types.size(); ++i) {
        const std::string p = "p" + std::to_string(i);
        text += "%" + p + ": ptr<" + type_name(types[i]) + "> readonly, ";
        body += addresses(p, types[i], n) + "%x" + std::to_string(i) + " = load %q" + p + "\n";
      }
      text += "%out: ptr<" + type_name(result) + ">) {\n" + header + body + lines + "\n" + addresses("out", result, n);
      kernel = instantiated(text + "store %qout, %z\n}\n");
      kernel_lanes = lanes;
    }
    std::vector<Buffer> buffers;
    for (size_t i = 0; i < types.size(); ++i) {
      const auto first = columns.at(i).begin() + static_cast<std::ptrdiff_t>(start);
      buffers.push_back({types[i], {first, first + static_cast<std::ptrdiff_t>(lanes)}});
    }
    buffers.push_back({result, Column(lanes)});
    const std::string error = try_run(kernel, buffers, {1, 1, 1}, quick());
    EXPECT_EQ(error, "") << lines;
    out.insert(out.end(), buffers.back().elements.begin(), buffers.back().elements.end());
  }
  return out;
}

// One elementwise op, "add %x0, %x1", on rows of operands.
inline Column run_elementwise(const std::string& op, const std::vector<Type>& types, const std::vector<Column>& columns,
                              Type result) {
  return run_lines("%z = " + op, types, columns, result);
}

}  // namespace kiln::oracle
