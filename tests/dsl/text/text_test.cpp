// The text form: round trips, golden files, and what each syntax error says.
#include "kiln/dsl/text.h"

#include <cstdlib>
#include <numeric>
#include <random>

#include "random/random_kernel.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

// The golden files are the frozen form. KILN_UPDATE_GOLDEN=1 rewrites them; the diff is then to be read.
TEST(Text, GoldenFilesAreInPrintedForm) {
  const auto files = golden_files();
  ASSERT_GE(files.size(), 4u);
  for (const auto& path : files) {
    const std::string text = read_file(path);
    const std::string again = print(parsed(text));
    if (std::getenv("KILN_UPDATE_GOLDEN"))
      std::ofstream(path, std::ios::binary) << again;
    else
      EXPECT_EQ(again, text) << path;
  }
}

TEST(Text, PrintedKernelsParseToTheSameKernel) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Kernel kernel = RandomKernel(seed).make();
    const std::string text = print(kernel);
    const Kernel back = parsed(text);
    ASSERT_EQ(print(back), text);
    EXPECT_EQ(back.grid, kernel.grid);
    EXPECT_EQ(back.values.size(), kernel.values.size());
  }
}

TEST(Text, CommentsSpacingAndAttributeOrderDoNotMatter) {
  const Kernel a = parsed("kernel k(%p: ptr<f32>) { %c = constant {value = 1.0, type = f32} : f32\n store %p, %c }");
  const Kernel b = parsed("// first\nkernel k(\n%p:ptr<f32>,){//x\n%c=constant{type=f32,value=1.0,}store%p,%c}");
  EXPECT_EQ(print(a), print(b));
}

TEST(Text, NaturalDefaultsMayBeLeftOutAndAreNotPrinted) {
  const Kernel a = parsed("kernel k(%p: ptr<f32>, %x: f32) { %m = min %x, %x {numeric = 0} store %p, %m }");
  const Kernel b = parsed("kernel k(%p: ptr<f32>, %x: f32) { %m = min %x, %x store %p, %m }");
  EXPECT_EQ(print(a), print(b));
  EXPECT_NE(print(a).find("%m = min %x, %x : f32\n"), std::string::npos) << print(a);
}

TEST(Text, DebugMayBeLinesAlone) {
  const Kernel kernel = parsed("kernel k() { option debug = lines }");
  EXPECT_TRUE(kernel.options.lines && !kernel.options.debug);
  EXPECT_NE(print(kernel).find("\n  option debug = lines\n"), std::string::npos) << print(kernel);
  EXPECT_FALSE(parsed("kernel k() { option debug = lines option debug = true }").options.lines);
}

TEST(Text, LocationsAreThoseOfTheText) {
  const Kernel kernel = parsed("kernel k(%p: ptr<f32>) {\n  %c = load %p\n    store %p, %c\n}");
  EXPECT_EQ(kernel.location_text(kernel.body.ops[0].loc), "k.kiln:2:3");
  EXPECT_EQ(kernel.location_text(kernel.body.ops[1].loc), "k.kiln:3:5");
}

TEST(Text, NamesThatCannotBePrintedAreReplaced) {
  Kernel kernel = parsed(
      "kernel k(%p: ptr<f32>, %q: ptr<f32>) { constexpr B = 1\n %c = load %p  %d = load %q store %p, %d store %q, %c "
      "}");
  kernel.params[0].name = kernel.params[1].name = "a b";
  kernel.constexprs[0].name = "arg0";
  kernel.values[2].name = "1x";
  kernel.values[3].name = "arg1";
  const std::string text = print(kernel);
  EXPECT_EQ(text,
            "kernel k(%arg0: ptr<f32>, %arg1: ptr<f32>) {\n  constexpr arg0_ = 1\n  grid [1, 1, 1]\n\n"
            "  %0 = load %arg0 : f32\n  %1 = load %arg1 : f32\n  store %arg0, %1\n  store %arg1, %0\n}\n");
  EXPECT_EQ(print(parsed(text)), text);
}

// A kernel of nothing but constants of one type.
Kernel constants(ElementType element, const std::vector<uint64_t>& all_bits) {
  Kernel kernel;
  kernel.name = "constants";
  for (uint64_t bits : all_bits) {
    const auto id = static_cast<ValueId>(kernel.values.size());
    kernel.values.push_back({scalar_type(element), ""});
    kernel.body.ops.push_back({OpCode::kConstant, {}, {id}, {Literal{bits}, element}, {}, {}});
  }
  return kernel;
}

void expect_round_trip(ElementType element, const std::vector<uint64_t>& all_bits) {
  const Kernel back = parsed(print(constants(element, all_bits)));
  ASSERT_EQ(back.body.ops.size(), all_bits.size());
  for (size_t i = 0; i < all_bits.size(); ++i) {
    ASSERT_EQ(std::get<Literal>(back.body.ops[i].attrs[0]).bits, all_bits[i]) << info(element).name;
  }
}

TEST(Text, EveryFloatOfTheNarrowTypesRoundTrips) {
  for (ElementType element : {ElementType::kF8E4M3, ElementType::kF8E5M2, ElementType::kF16, ElementType::kBF16}) {
    std::vector<uint64_t> all(size_t{1} << info(element).bits);
    std::iota(all.begin(), all.end(), 0);
    expect_round_trip(element, all);
  }
}

TEST(Text, RandomWideNumbersRoundTrip) {
  std::mt19937_64 random(1);
  for (ElementType element : {ElementType::kF32, ElementType::kF64, ElementType::kI8, ElementType::kI64,
                              ElementType::kU16, ElementType::kU64}) {
    const int width = info(element).bits;
    std::vector<uint64_t> some(20000);
    for (uint64_t& bits : some) bits = width == 64 ? random() : random() & ((uint64_t{1} << width) - 1);
    expect_round_trip(element, some);
  }
}

TEST(Text, LiteralsAreShort) {
  auto text_of = [](ElementType element, uint64_t bits) {
    const std::string text = print(constants(element, {bits}));
    const size_t start = text.find("value = ") + 8;
    return text.substr(start, text.find(',', start) - start);
  };
  EXPECT_EQ(text_of(ElementType::kF32, bits_from_double(ElementType::kF32, 0.1)), "0.1");
  EXPECT_EQ(text_of(ElementType::kF16, bits_from_double(ElementType::kF16, 0.1)), "0.1");
  EXPECT_EQ(text_of(ElementType::kF8E4M3, bits_from_double(ElementType::kF8E4M3, 448)), "448.0");
  EXPECT_EQ(text_of(ElementType::kF64, bits_from_double(ElementType::kF64, 1e300)), "1e+300");
  EXPECT_EQ(text_of(ElementType::kI8, 0x80), "-128");
}

struct BadText {
  const char* text;
  const char* error;
};

TEST(Text, SyntaxErrorsNamePlaceAndWhatWasExpected) {
  const BadText cases[] = {
      {"", "k.kiln:1:1: error: expected `kernel`, found the end of the file"},
      {"kernel", "k.kiln:1:7: error: expected the kernel's name, found the end of the file"},
      {"kernel k(x: f32) {}", "k.kiln:1:10: error: expected a parameter like `%x: f32`, found `x`"},
      {"kernel k(%x f32) {}", "k.kiln:1:13: error: expected `:`, found `f32`"},
      {"kernel k(%x: f32 {}", "k.kiln:1:18: error: expected `)`, found `{`"},
      {"kernel k(%1: f32) {}", "k.kiln:1:10: error: a parameter's name must begin with a letter"},
      {"kernel k(%x: f99) {}", "k.kiln:1:14: error: there is no element type `f99`"},
      {"kernel k(%x: f32, %x: f32) {}", "k.kiln:1:19: error: `%x` is already defined in line 1"},
      {"kernel k() {} x", "k.kiln:1:15: error: expected the end of the file after the kernel, found `x`"},
      {"kernel k() {\n§ }", "k.kiln:2:1: error: expected an op or `}`, found `§`"},
      {"kernel k() { constexpr B constexpr B }", "k.kiln:1:36: error: the name `B` is taken"},
      {"kernel k() { constexpr B = x }", "k.kiln:1:28: error: expected an integer, found `x`"},
      {"kernel k() { constexpr B = 9223372036854775808 }", "k.kiln:1:28: error: the integer is too large"},
      {"kernel k() { constexpr = 1 }", "k.kiln:1:24: error: expected the constexpr's name, found `=`"},
      {"kernel k() { option = true }", "k.kiln:1:21: error: expected the option's name, found `=`"},
      {"kernel k() { space = [1] }",
       "k.kiln:1:20: error: expected the name of a constexpr or a schedule option, found `=`"},
      {"kernel k(%y: f32) { %a, 3 = neg %y }", "k.kiln:1:25: error: expected a result like `%x`, found `3`"},
      {"kernel k(%y: f32) { %a = %y }", "k.kiln:1:26: error: expected the name of an op, found `%y`"},
      {"kernel k(%y: f32) { %a = neg %y, 3 }", "k.kiln:1:34: error: expected an operand like `%x`, found `3`"},
      {"kernel k(%y: i32) { for y = %y to %y step %y { yield } }",
       "k.kiln:1:25: error: expected the loop's index like `%k`, found `y`"},
      {"kernel k(%y: i32) { for %k = y to %y step %y { yield } }",
       "k.kiln:1:30: error: expected the start, a value like `%lo`, found `y`"},
      {"kernel k(%y: i32) { for %k = %y to y step %y { yield } }",
       "k.kiln:1:36: error: expected the end, a value like `%hi`, found `y`"},
      {"kernel k(%y: i32) { for %k = %y to %y step y { yield } }",
       "k.kiln:1:44: error: expected the step, a value like `%st`, found `y`"},
      {"kernel k(%y: i32) { while carry (y = %y) { yield %y } do (%b) { yield %b } }",
       "k.kiln:1:34: error: expected a carried value like `%acc = %init`, found `y`"},
      {"kernel k(%y: i32) { while carry (%x = y) { yield %y } do (%b) { yield %b } }",
       "k.kiln:1:39: error: expected the carried value's start like `%init`, found `y`"},
      {"kernel k(%y: i1) { %r = while carry (%x = %y) { yield %x } { yield %y } }",
       "k.kiln:1:60: error: expected `do`, found `{`"},
      {"kernel k(%y: i1) { %r = while carry (%x = %y) { yield %x } do (3) { yield %y } }",
       "k.kiln:1:64: error: expected an argument of the region like `%l`, found `3`"},
      {"kernel k(%y: i1) { %r = while carry (%x = %y) { yield %x } do { yield %y } }",
       "k.kiln:1:63: error: expected `(`, found `{`"},
      {"kernel k(%y: i1) { print %y {message = 3} }",
       "k.kiln:1:40: error: expected a string in double quotes, found `3`"},
      {"kernel k(%y: descriptor<[4], ptr<f32>>) { }", "k.kiln:1:30: error: there is no element type `ptr`"},
      {"kernel k() { space B = 3 }", "k.kiln:1:24: error: expected `[`, found `3`"},
      {"kernel k() { grid [] }", "k.kiln:1:14: error: a grid has 1 to 3 extents"},
      {"kernel k() { grid [n] }", "k.kiln:1:20: error: there is no constexpr or parameter `n`"},
      {"kernel k() { grid [pow(1, 2)] }",
       "k.kiln:1:20: error: there is no function `pow`; there are div, rem, min, max, eq, ne, lt, le"},
      {"kernel k() { grid [1 +] }", "k.kiln:1:23: error: expected an integer expression, found `]`"},
      {"kernel k() { grid [1.5] }", "k.kiln:1:20: error: expected an integer, found `1.5`"},
      {"kernel k() { option fast = true }",
       "k.kiln:1:21: error: there is no option `fast`; there are contract, fuse_precision, deterministic, debug, "
       "check_bounds"},
      {"kernel k() { option contract = 1 }", "k.kiln:1:32: error: expected `true` or `false`, found `1`"},
      {"kernel k() { option contract = lines }", "k.kiln:1:32: error: expected `true` or `false`, found `lines`"},
      {"kernel k() { option debug = asserts }",
       "k.kiln:1:29: error: expected `true`, `false` or `lines`, found `asserts`"},
      {"kernel k() { foo }", "k.kiln:1:14: error: there is no op `foo`"},
      {"kernel k() { %x = neg %y }", "k.kiln:1:23: error: `%y` is not defined"},
      {"kernel k(%y: f32) { %x = neg %x }", "k.kiln:1:30: error: `%x` is not defined"},
      {"kernel k(%y: f32) { %x = neg %y, }", "k.kiln:1:34: error: expected an operand like `%x`, found `}`"},
      {"kernel k(%y: f32) { neg %y }", "k.kiln:1:21: error: neg gives 1 result, not 0"},
      {"kernel k(%y: f32) { %a, %b = neg %y }", "k.kiln:1:21: error: neg gives 1 result, not 2"},
      {"kernel k(%y: f32) { %a = neg %y : f64 }", "k.kiln:1:35: error: neg gives f32, not f64"},
      {"kernel k(%p: ptr<f32>, %y: f32) { store %p, %y : f32 }", "k.kiln:1:48: error: store gives no result"},
      {"kernel k(%y: f32) { %a = neg %y : tile<[], f32> }",
       "k.kiln:1:40: error: a tile has at least one extent; a scalar is written without `tile`"},
      {"kernel k(%y: f32) { %a = math %y {fn = sine} }",
       "k.kiln:1:40: error: `fn` is one of exp, exp2, expm1, log, log2, log10, log1p, sin, cos, tan, asin, acos, atan, "
       "atan2, sinh, cosh, tanh, erf, erfc, sqrt, rsqrt, pow, hypot, copysign, signbit, floor, ceil, round, trunc, "
       "isnan, isinf, not `sine`"},
      {"kernel k(%y: f32) { %a = math %y }", "k.kiln:1:26: error: math lacks the attribute `fn`"},
      {"kernel k(%y: f32) { %a = neg %y {x = 1} }", "k.kiln:1:34: error: neg has no attribute `x`"},
      {"kernel k() { %a = program_id {axis = 0, axis = 1} }",
       "k.kiln:1:41: error: the attribute `axis` is given twice"},
      {"kernel k() { %a = constant {value = 300, type = u8} }", "k.kiln:1:37: error: 300 is not a value of u8"},
      {"kernel k() { %a = constant {value = -1, type = u8} }", "k.kiln:1:37: error: -1 is not a value of u8"},
      {"kernel k() { %a = constant {value = 1.5, type = i32} }", "k.kiln:1:37: error: 1.5 is not a value of i32"},
      {"kernel k() { %a = constant {value = 1e99, type = f32} }", "k.kiln:1:37: error: 1e99 is not a value of f32"},
      {"kernel k() { %a = constant {value = 0x1ff, type = f8e4m3} }",
       "k.kiln:1:37: error: 0x1ff is not a value of f8e4m3"},
      {"kernel k() { require {cond = 1, message = \"x} }", "k.kiln:1:43: error: the string has no closing quote"},
      {"kernel k() { require {cond = 1, message = \"\\q\"} }",
       "k.kiln:1:43: error: the string has an unknown escape; there are \\n \\t \\\" \\\\ and \\xHH"},
      {"kernel k(%n: i32) { for %k = %n to %n step %n { %x = add %k, %k yield } store %x }",
       "k.kiln:1:79: error: `%x` is not visible here: it belongs to a region that does not enclose this op"},
      {"kernel k(%n: i32) { for %k = %n by %n }", "k.kiln:1:33: error: expected `to`, found `by`"},
      {"kernel k(%n: i32) { for %k = %n to %n step %n carry (%a) {} }", "k.kiln:1:56: error: expected `=`, found `)`"},
      {"kernel k(%n: i32) { for %k = %n to %n step %n", "k.kiln:1:46: error: expected `{`, found the end of the file"},
  };
  for (const BadText& bad : cases) EXPECT_EQ(first_line(parse(bad.text, "k.kiln")), bad.error) << bad.text;
}

TEST(Text, NamesOf257LettersAreRefusedForTheirLength) {
  const std::string longest(256, 'n'), longer(257, 'n');
  EXPECT_TRUE(parse("kernel k(%" + longest + ": f32) {}", "k.kiln").ok());
  const auto param = parse("kernel k(%" + longer + ": f32) {}", "k.kiln");
  ASSERT_FALSE(param.ok());
  EXPECT_TRUE(param.error().message.starts_with("k.kiln:1:10: error: a parameter's name has up to 256 characters"))
      << param.error().message;
}

TEST(Text, ErrorsShowTheLineAndACaret) {
  auto bad = parse("kernel k(%y: f32) {\n\t%ü = neg %y\n}", "k.kiln");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message, "k.kiln:2:2: error: expected an op or `}`, found `%`\n   %ü = neg %y\n   ^");
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
}

// A token of each kind: the whole line, and the caret below its first character.
TEST(Text, CaretsPointAtTheFirstCharacterOfAToken) {
  auto shown = [](const std::string& text) {
    auto bad = parse(text, "k.kiln");
    return bad ? "" : bad.error().message.substr(bad.error().message.find("\n"));
  };
  EXPECT_EQ(shown("kernel k(%y: f32) {\n  %x = neg %zz\n}"), "\n    %x = neg %zz\n             ^");
  EXPECT_EQ(shown("kernel k(%y: f32) {\n%y = neg %y\n}"), "\n  %y = neg %y\n  ^");
  EXPECT_EQ(shown("kernel k(%y: f32) {\n  %x = nag %y\n}"), "\n    %x = nag %y\n         ^");
  EXPECT_EQ(shown("kernel k(%y: f32) {\n  %x = cast %y {to = 7}\n}"),
            "\n    %x = cast %y {to = 7}\n                       ^");
  EXPECT_EQ(shown("kernel k(%y: f32) {\n  print %y {message = \"\\q\"}\n}"),
            "\n    print %y {message = \"\\q\"}\n                        ^");
  EXPECT_EQ(shown("karnel"), "\n  karnel\n  ^");
  EXPECT_EQ(shown("kernel k() {"), "\n  kernel k() {\n              ^");
}

std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// Counts, with the place where the last straw lies.
TEST(Text, CountsAreLimited) {
  auto many = [](int count, const std::string& before, const std::string& each, const std::string& after) {
    std::string text = before;
    for (int i = 0; i < count; ++i) {
      std::string item = each;
      item.replace(item.find('#'), 1, std::to_string(i));
      text += item;
    }
    return first_line(parse(text + after, "k.kiln"));
  };
  EXPECT_EQ(many(4097, "kernel k(\n", "%p#: i32,\n", ") { }"), "k.kiln:4098:1: error: too many parameters");
  EXPECT_EQ(many(4097, "kernel k() {\n", "constexpr C#\n", "}"), "k.kiln:4098:11: error: too many constexprs");
  EXPECT_EQ(many(4097, "kernel k() {\n", "space S# = [1]\n", "}"), "k.kiln:4098:7: error: too many space axes");
  EXPECT_EQ(many(4097, "kernel k() { space num_warps = [\n", "#,\n", "] }"), "k.kiln:4098:1: error: too many values");
  EXPECT_EQ(many(65, "kernel k(%x: f32) { %t = splat %x {shape = [\n", "1#,\n", "]} }"),
            "k.kiln:66:1: error: too many entries");
  EXPECT_EQ(many((1 << 18) + 1, "kernel k(%x: f32) {\n", "%v# = neg %x\n", "}"),
            "k.kiln:262146:1: error: the kernel has too many ops");
  EXPECT_EQ(many(
                257, "kernel k() {\n", "constexpr C#\n",
                "grid [" +
                    [] {
                      std::string sum = "C0";
                      for (int i = 1; i < 257; ++i) sum += " + C" + std::to_string(i);
                      return sum;
                    }() +
                    "] }"),
            "k.kiln:259:7: error: the expression has too many terms");
}

TEST(Text, LimitsHold) {
  EXPECT_EQ(first_line(parse(std::string((16u << 20) + 1, ' '), "k.kiln")), "k.kiln: the text is larger than 16 MiB");
  EXPECT_EQ(first_line(parse("kernel k() { grid [" + repeated("(", 100000), "k.kiln")),
            "k.kiln:1:84: error: the expression is nested too deeply");
  std::string loops = "kernel k(%n: i32) {";
  for (int i = 0; i < 100; ++i) loops += " for %k" + std::to_string(i) + " = %n to %n step %n {";
  EXPECT_NE(first_line(parse(loops, "k.kiln")).find("regions are nested too deeply"), std::string::npos);
  std::string params, sum;
  for (int i = 0; i < 40; ++i) {
    params += (i ? ", %p" : "%p") + std::to_string(i) + ": i32";
    sum += (i ? " + p" : "p") + std::to_string(i);
  }
  const std::string product =
      "kernel k(" + params + ") { grid [(" + sum + ")" + repeated(" * (" + sum + ")", 20) + "] }";
  EXPECT_NE(first_line(parse(product, "k.kiln")).find("the expression has too many terms"), std::string::npos);
  EXPECT_NE(first_line(parse("kernel k(%n: i32) { grid [n" + repeated("*n", 40) + "] }", "k.kiln"))
                .find("the expression has too many factors"),
            std::string::npos);
}

TEST(Text, HostileTextNeverCrashes) {
  std::mt19937 random(3);
  std::vector<std::string> corpus;
  for (const auto& path : golden_files()) corpus.push_back(read_file(path));
  for (uint32_t seed = 0; seed < 4; ++seed) corpus.push_back(print(RandomKernel(seed).make()));
  size_t accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = corpus[random() % corpus.size()];
    switch (random() % 4) {
      case 0:
        text.resize(random() % text.size());
        break;
      case 1:
        text[random() % text.size()] = static_cast<char>(random());
        break;
      case 2:
        text.erase(random() % text.size(), random() % 9);
        break;
      default: {  // a piece of it again, elsewhere
        const std::string piece = text.substr(random() % text.size(), random() % 40);
        text.insert(random() % text.size(), piece);
      }
    }
    auto kernel = parse(text, "k.kiln");
    accepted += kernel.ok();
    // What parses prints, and reads back as printed; what does not names its place.
    if (!kernel) {
      ASSERT_TRUE(kernel.error().message.starts_with("k.kiln:")) << kernel.error().message;
    } else if (verify(*kernel)) {
      ASSERT_EQ(print(parsed(print(*kernel))), print(*kernel));
    }
  }
  EXPECT_GT(accepted, 100u);
}

TEST(Text, AtomicsAreAcqRelOfTheDeviceByDefault) {
  const std::string head = "kernel k(%p: ptr<i32>, %x: i32) { ";
  EXPECT_EQ(print(parsed(head + "%o = atomic_rmw %p, %x {kind = add} }")),
            print(parsed(head + "%o = atomic_rmw %p, %x {kind = add, order = acq_rel, scope = device} }")));
  EXPECT_EQ(print(parsed(head + "%o = atomic_cas %p, %x, %x }")),
            print(parsed(head + "%o = atomic_cas %p, %x, %x {order = acq_rel, scope = device} }")));
  EXPECT_NE(print(parsed(head + "%o = atomic_cas %p, %x, %x {order = relaxed} }")).find("order = relaxed"),
            std::string::npos);
}

}  // namespace
}  // namespace kiln::dsl::testing
