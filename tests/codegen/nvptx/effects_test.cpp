// Barriers, atomics, checks, prints, inline assembly and line tables in code for NVIDIA GPUs, without one: the PTX, and
// machine code where the machine has NVIDIA's assembler.
#include "differential.h"
#include "kiln/dsl/types.h"
#include "sampled.h"

namespace kiln::test {
namespace {

size_t count(const std::string& text, const std::string& what) {
  size_t out = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++out;
  return out;
}

std::string ptx_of(const std::string& text, const dsl::Facts& facts = {}, const std::string& target = "cuda:sm_90a") {
  auto artifact = compile(parse_kernel(text), {}, facts, target, "ptx");
  EXPECT_TRUE(artifact.ok()) << artifact.error().message << text;
  return artifact ? std::string(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size()) : "";
}

// Through the assembler as well, where there is one.
void expect_assembled(const std::string& text, const std::string& target) {
  auto artifact = compile(parse_kernel(text), {}, {}, target);
  EXPECT_TRUE(artifact.ok()) << target << ": " << artifact.error().message << text;
}

TEST(NvidiaOrder, BarriersStandOnlyBetweenThreadsThatMeet) {
  const TextKernel::Shape shape = {1024};
  const auto copy = [&](const std::string& from, int64_t load_at, int64_t store_at) {
    TextKernel k("%x: ptr<f32>, %y: ptr<f32>, %c: ptr<f32> readonly");
    const std::string value = k.op("load " + k.pointers(from, shape, load_at));
    k.line("store " + k.pointers("%x", shape, store_at) + ", " + k.op("neg " + value));
    return k.text();
  };
  EXPECT_EQ(count(ptx_of(copy("%x", 0, 0)), "bar.sync"), 0u);
  EXPECT_EQ(count(ptx_of(copy("%x", 8, 0)), "bar.sync"), 1u);
  EXPECT_EQ(count(ptx_of(copy("%y", 8, 0)), "bar.sync"), 0u);
  EXPECT_EQ(count(ptx_of(copy("%c", 8, 0)), "bar.sync"), 0u);
}

std::string atomic_text(const std::string& type, const std::string& op, bool keeps_old) {
  TextKernel k("%p: ptr<" + type + ">, %x: ptr<" + type + "> readonly, %old: ptr<" + type + ">");
  const TextKernel::Shape shape = {1024};
  const std::string value = k.op("load " + k.pointers("%x", shape));
  const size_t space = op.find(' ');
  std::string operands = k.pointers("%p", shape) + ", " + value;
  if (op.starts_with("atomic_cas")) operands += ", " + value;
  const std::string old = k.op(op.substr(0, space) + " " + operands + op.substr(space));
  if (keeps_old) k.line("store " + k.pointers("%old", shape) + ", " + old);
  return k.text();
}

const dsl::Facts kAligned(3, dsl::ParamFact::kAlign16);

TEST(NvidiaAtomics, NeighboursGoTogetherWhereNobodyWantsWhatWasThere) {
  const auto sum = [&](const char* type, bool keeps_old, const char* target) {
    return ptx_of(atomic_text(type, "atomic_rmw {kind = add, order = relaxed}", keeps_old), kAligned, target);
  };
  EXPECT_EQ(count(sum("f32", false, "cuda:sm_90"), "red.relaxed.gpu.global.add.v4.f32"), 2u);
  EXPECT_EQ(count(sum("f32", false, "cuda:sm_80"), "red.relaxed.gpu.global.add.f32"), 8u);
  EXPECT_EQ(count(sum("f32", true, "cuda:sm_90"), "atom.relaxed.gpu.global.add.f32"), 8u);
  EXPECT_EQ(count(sum("bf16", false, "cuda:sm_90"), "red.relaxed.gpu.global.add.noftz.v4.bf16x2"), 1u);
  EXPECT_EQ(count(sum("f16", false, "cuda:sm_80"), "red.relaxed.gpu.global.add.noftz.f16x2"), 4u);
  EXPECT_EQ(count(sum("bf16", false, "cuda:sm_80"), "atom.relaxed.gpu.global.cas.b16"), 1u) << "a loop, in a function";
  EXPECT_EQ(count(sum("i32", false, "cuda:sm_80"), "red.relaxed.gpu.global.add.u32"), 8u);
}

TEST(NvidiaAtomics, OrdersAreFencesBehindAndBeforeBarriers) {
  TextKernel k("%flag: ptr<i32>, %p: ptr<f32>, %out: ptr<f32>");
  const TextKernel::Shape shape = {1024};
  k.line("store " + k.pointers("%p", shape) + ", " + k.fill("1", "f32", shape));
  k.op("atomic_rmw %flag, " + k.constant("1", "i32") + " {kind = add, order = acq_rel, scope = system}");
  k.line("store " + k.pointers("%out", shape) + ", " + k.op("load " + k.pointers("%out", shape)));
  const std::string text = ptx_of(k.text());
  size_t at = 0;
  for (const char* next : {"st.global", "bar.sync", "fence.acq_rel.sys", "red.relaxed.sys.global.add.u32",
                           "fence.acq_rel.sys", "bar.sync", "ld.global", "st.global"}) {
    const size_t found = text.find(next, at);
    ASSERT_NE(found, std::string::npos) << next << text;
    at = found + 1;
  }
  EXPECT_EQ(count(text, "bar.sync"), 2u) << text;
}

TEST(NvidiaAtomics, EveryKindOfEveryTypeIsAssembled) {
  for (const char* type : {"i8", "u16", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"}) {
    for (const char* target : sampled(std::vector<const char*>{"cuda:sm_80", "cuda:sm_90a"}, 1)) {
      const bool is_float = type[0] == 'f' || type[0] == 'b';
      TextKernel k("%p: ptr<" + std::string(type) + ">, %old: ptr<" + type + ">, %n: i32");
      const TextKernel::Shape shape = {200};
      const std::string at = k.pointers("%p", shape), mask = k.mask(shape, {"%n"});
      std::string value = k.op("load " + k.pointers("%old", shape));
      for (const char* kind : {"add", "min", "max", "xchg", "and", "or", "xor"}) {
        if (is_float && (kind[0] == 'a' ? kind[1] == 'n' : kind[0] == 'o' || kind[1] == 'o')) continue;
        value = k.op("atomic_rmw " + at + ", " + value + ", " + mask + " {kind = " + kind + "}");
        k.op("atomic_rmw " + at + ", " + value + " {kind = " + kind + ", order = relaxed, scope = block}");
      }
      value = k.op("atomic_cas " + at + ", " + value + ", " + value + ", " + mask);
      k.line("store " + k.pointers("%old", shape) + ", " + value);
      expect_assembled(k.text(), target);
    }
  }
}

std::string with_option(const TextKernel& k, const std::string& option) {
  std::string text = k.text();
  return text.insert(text.find("  grid"), "  option " + option + "\n");
}

TEST(NvidiaReports, SayWhereALaunchPutsWhatTheyNeed) {
  TextKernel k("%x: ptr<f32> readonly, %n: i32, %y: ptr<f32>");
  const TextKernel::Shape shape = {300};
  const std::string x = k.op("load " + k.pointers("%x", shape) + ", " + k.mask(shape, {"%n"}));
  k.line("print " + x + ", %n {message = \"x\"}");
  k.line("store " + k.pointers("%y", shape) + ", " + x);
  const std::string text = with_option(k, "check_bounds = true");
  auto artifact = compile(parse_kernel(text), {}, {}, "cuda:sm_80");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const abi::Metadata& metadata = artifact->metadata;
  EXPECT_EQ(metadata.params_bytes, 24);
  const std::map<abi::LaunchField, int64_t> offsets = {
      {abi::LaunchField::kFailure, 24},
      {abi::LaunchField::kExtents, 32},
      {abi::LaunchField::kPrint, 48},
      {abi::LaunchField::kPrograms, 56},  // of one warp each, in blocks of four
  };
  EXPECT_EQ(metadata.offsets, offsets);
  EXPECT_EQ(metadata.checks.size(), 2u);
  ASSERT_FALSE(metadata.prints.empty());
  EXPECT_EQ(metadata.prints[0].message, "x");
  // The parameters of the code are those.
  const std::string ptx = ptx_of(text);
  EXPECT_NE(ptx.find("kiln_entry_param_7"), std::string::npos);
  EXPECT_EQ(ptx.find("kiln_entry_param_8"), std::string::npos);
}

std::string assembly_text(const std::string& type, const std::string& attributes) {
  TextKernel k("%x: ptr<" + type + "> readonly, %y: ptr<" + type + ">");
  const std::string x = k.op("load " + k.pointers("%x", {1024}));
  k.line("store " + k.pointers("%y", {1024}) + ", " + k.op("inline_asm " + x + " {" + attributes + "}"));
  return k.text();
}

TEST(NvidiaInlineAsm, TakesPacksOfRegisters) {
  const std::string one = assembly_text("f32", "text = \"ex2.approx.f32 $0, $1;\", constraints = \"=f,f\", type = f32");
  EXPECT_EQ(count(ptx_of(one), "ex2.approx.f32"), 8u);
  const std::string two =
      assembly_text("f16", "text = \"tanh.approx.f16x2 $0, $1;\", constraints = \"=r,r\", pack = 2, type = f16");
  EXPECT_EQ(count(ptx_of(two), "tanh.approx.f16x2"), 4u);
  const std::string four =
      assembly_text("i8", "text = \"not.b32 $0, $1;\", constraints = \"=r,r\", pack = 4, type = i8");
  EXPECT_EQ(count(ptx_of(four), "not.b32"), 2u);
  for (const std::string& text : {one, two, four}) expect_assembled(text, "cuda:sm_80");
}

TEST(NvidiaInlineAsm, NamesConstraintsThatDoNotFit) {
  const auto message = [](const std::string& constraints) {
    auto artifact = compile(parse_kernel(assembly_text("f32", "text = \"mov.b32 $0, $1;\", constraints = \"" +
                                                                  constraints + "\", type = f32")),
                            {}, {}, "cuda:sm_80", "ptx");
    return artifact ? "" : artifact.error().message;
  };
  EXPECT_EQ(message("=r,f"), "");
  EXPECT_NE(message("=f").find("inline_asm: takes 2 constraints (1 of results), not 1"), std::string::npos);
  EXPECT_NE(message("f,f").find("begins with `=`"), std::string::npos);
  EXPECT_NE(message("=f,d").find("`d` is no constraint for 32 bits on this target"), std::string::npos);
  EXPECT_NE(message("=f,m").find("`m` is no constraint"), std::string::npos);
}

TEST(NvidiaLines, AreThereWithTheOptionDebugAlone) {
  TextKernel k("%x: ptr<f32> readonly, %y: ptr<f32>");
  k.line("store " + k.pointers("%y", {256}) + ", " + k.op("load " + k.pointers("%x", {256})));
  const std::string text = with_option(k, "debug = true");
  const std::string ptx = ptx_of(text);
  EXPECT_NE(ptx.find("test.kiln"), std::string::npos) << ptx;
  // The store stands on the last line but one.
  const std::string line = std::to_string(std::count(text.begin(), text.end(), '\n') - 1);
  const size_t place = ptx.rfind(".loc", ptx.find("st.global"));
  ASSERT_NE(place, std::string::npos);
  EXPECT_EQ(ptx.substr(place, 7 + line.size()), ".loc\t1 " + line) << ptx;
  EXPECT_EQ(ptx_of(k.text()).find(".loc"), std::string::npos);
  expect_assembled(text, "cuda:sm_90a");
}

}  // namespace
}  // namespace kiln::test
