// What the tests of the C++ builder and of its library share.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/kernel.h"
#include "kiln/dsl/verify.h"
#include "kiln/dsl/walk.h"

namespace kiln::dsl {

inline int count_ops(const Region& region, OpCode code) {
  int count = 0;
  for_each_op(region, [&](const Op& op) { count += op.code == code; });
  return count;
}

inline const Op* find_op(const Region& region, OpCode code) {
  return find_op(region, [&](const Op& op) { return op.code == code; });
}

// The kernel of a trace that must have gone well; also checked by the verifier.
template <class Def>
Kernel traced(const Def& def) {
  if (!def.ir()) {
    ADD_FAILURE() << def.ir().error().message;
    return {};
  }
  auto verified = verify(*def.ir());
  EXPECT_TRUE(verified.ok()) << verified.error().message;
  return *def.ir();
}

// The trace failed, with a diagnostic at a line of `file` that contains `text`. 0: any line.
template <class Def>
void expect_error(const Def& def, const char* file, int line, const std::string& text) {
  ASSERT_FALSE(def.ir().ok()) << "no error; expected: " << text;
  EXPECT_EQ(def.ir().error().code, ErrorCode::kVerifyFailed);
  const std::string& message = def.ir().error().message;
  const std::string place = std::string(file) + ":" + std::to_string(line) + ":";
  EXPECT_NE(message.find(place), std::string::npos) << "expected " << place << "\n" << message;
  EXPECT_NE(message.find(text), std::string::npos) << "expected \"" << text << "\"\n" << message;
}

inline Argument buffer(const auto& data) {
  using T = std::remove_cvref_t<decltype(data[0])>;
  return {const_cast<T*>(data.data()), static_cast<int64_t>(data.size()), 0};
}
inline Argument number(int64_t value) { return {nullptr, 0, static_cast<uint64_t>(value)}; }
inline Argument number(float value) { return {nullptr, 0, bits_from_double(ElementType::kF32, value)}; }

// Runs a kernel on the interpreter over its own grid.
inline void run(const Kernel& kernel, const ConstexprValues& config, const std::vector<Argument>& arguments) {
  auto concrete = instantiate(kernel, config, {});
  ASSERT_TRUE(concrete.ok()) << concrete.error().message;
  Bindings bindings;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Type& type = kernel.params[i].type;
    const bool is_integer = !type.pointer && is_int(type.element);
    bindings.params.push_back(is_integer ? std::optional(static_cast<int64_t>(arguments[i].bits)) : std::nullopt);
  }
  auto grid = evaluate_grid(concrete->grid, bindings);
  ASSERT_TRUE(grid.ok()) << grid.error().message;
  auto done = interpret(*concrete, arguments, *grid);
  ASSERT_TRUE(done.ok()) << done.error().message;
}

}  // namespace kiln::dsl
