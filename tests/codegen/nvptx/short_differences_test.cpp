// Differences of what fits 32 bits are made in 32 bits.
#include "nvptx/short_differences.h"

#include <gtest/gtest.h>

#include "after_pass.h"

namespace kiln::codegen::nvptx {
namespace {

// A function of %x and %y that returns %a - %b, which `text` defines, after the pass.
std::string after(const std::string& text) {
  return after_pass("define i64 @f(i32 %x, i32 %y, i64 %z) {\n" + text + "\n  %d = sub i64 %a, %b\n  ret i64 %d\n}\n",
                    shorten_differences);
}

bool has(const std::string& text, const char* what) { return text.find(what) != std::string::npos; }

TEST(ShortDifferences, OfTwoThatFit31BitsAreSigned) {
  const std::string made = after(R"(
  %q = udiv i32 %x, 1152
  %a = zext i32 %q to i64
  %p = lshr i32 %x, 7
  %b = zext i32 %p to i64)");
  EXPECT_TRUE(has(made, "sub nsw i32")) << made;
  EXPECT_TRUE(has(made, "sext i32")) << made;
  EXPECT_FALSE(has(made, "sub i64")) << made;
}

TEST(ShortDifferences, OfAQuotientAndOf32BitsHaveABorrow) {
  const std::string made = after(R"(
  %q = udiv i32 %x, 1152
  %a = zext i32 %q to i64
  %b = zext i32 %y to i64)");
  EXPECT_TRUE(has(made, "icmp ult i32")) << made;
  EXPECT_TRUE(has(made, "i64 -4294967296")) << made;
  EXPECT_FALSE(has(made, "sub i64")) << made;
}

TEST(ShortDifferences, OfLongOnesAndOfWhatIsNoQuotientAreLeft) {
  EXPECT_TRUE(has(after("  %a = zext i32 %x to i64\n  %b = zext i32 %y to i64"), "sub i64"));
  EXPECT_TRUE(has(after("  %a = udiv i64 %z, 5\n  %b = zext i32 %y to i64"), "sub i64"));
  EXPECT_TRUE(has(after("  %q = udiv i32 %x, 5\n  %a = zext i32 %q to i64\n  %b = shl i64 %z, 1"), "sub i64"));
}

}  // namespace
}  // namespace kiln::codegen::nvptx
