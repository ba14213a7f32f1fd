// Parts of floats' bits are taken by instructions without a type.
#include "nvptx/low_parts.h"

#include <gtest/gtest.h>

#include "after_pass.h"

namespace kiln::codegen::nvptx {
namespace {

// A function that takes %x of a type and returns part of the bits of it after the pass.
std::string after(const std::string& type, const std::string& bits, const std::string& part) {
  return after_pass("define " + part + " @f(" + type + " %x) {\n  %b = bitcast " + type + " %x to " + bits +
                        "\n  %t = trunc " + bits + " %b to " + part + "\n  ret " + part + " %t\n}\n",
                    take_low_parts);
}

TEST(LowParts, OfFloatsAreTakenWithoutAType) {
  EXPECT_NE(after("double", "i64", "i32").find("mov.b64 {$0, high}, $1;"), std::string::npos);
  EXPECT_NE(after("double", "i64", "i8").find("mov.b64 {$0, high}, $1;"), std::string::npos);
  EXPECT_NE(after("float", "i32", "i16").find("mov.b32 {$0, high}, $1;"), std::string::npos);
  EXPECT_NE(after("<2 x half>", "i32", "i16").find("mov.b32 {$0, high}, $1;"), std::string::npos);
}

TEST(LowParts, OfIntsAreLeft) {
  EXPECT_EQ(after("<2 x i32>", "i64", "i32").find("asm"), std::string::npos);
  EXPECT_EQ(after("half", "i16", "i8").find("asm"), std::string::npos);
}

}  // namespace
}  // namespace kiln::codegen::nvptx
