// Walks, def-use tables, traits of nested ops and rewrites, on one kernel with a loop, a branch inside of it and a
// reduction behind.
#include <gmock/gmock.h>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/traits.h"
#include "kiln/dsl/uses.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

using ::testing::ElementsAre;

constexpr const char* kNested = R"(kernel nested(%p: ptr<f32>, %n: i32, %x: f32) {
  %zero = constant {value = 0, type = i32} : i32
  %one = constant {value = 1, type = i32} : i32
  %sum = for %i = %zero to %n step %one carry (%acc = %x) : f32 {
    %is = cmp %i, %one {pred = eq} : i1
    %next = if %is : f32 {
      %twice = add %acc, %acc : f32
      store %p, %twice
      yield %twice
    } else {
      yield %acc
    }
    yield %next
  }
  %tile = splat %sum {shape = [8]} : tile<[8], f32>
  %total = reduce %tile {kind = custom, axis = 0} : f32 (%l, %r) {
    %both = add %l, %r : f32
    yield %both
  }
  store %p, %total
}
)";

std::vector<std::string> names_of(const std::vector<Op>& ops) {
  std::vector<std::string> out;
  for (const Op& op : ops) out.push_back(info(op.code).name);
  return out;
}

ValueId named(const Kernel& kernel, const std::string& name) {
  for (ValueId id = 0; id < kernel.values.size(); ++id) {
    if (kernel.values[id].name == name) return id;
  }
  for (const Param& param : kernel.params) {
    if (param.name == name) return param.value;
  }
  ADD_FAILURE() << name;
  return kNoValue;
}

const Op& op_of(const Kernel& kernel, OpCode code) {
  return *find_op(kernel, [&](const Op& op) { return op.code == code; });
}

class IrToolbox : public ::testing::Test {
 protected:
  Kernel kernel_ = parsed(kNested);

  std::vector<std::string> visited(auto walk) const {
    std::vector<std::string> out;
    walk(kernel_, [&](const Op& op) { out.push_back(info(op.code).name); });
    return out;
  }
};

TEST_F(IrToolbox, WalksComeToEachOpOnce) {
  EXPECT_THAT(visited([](const auto& kernel, auto visit) { for_each_op(kernel, visit); }),
              ElementsAre("constant", "constant", "for", "cmp", "if", "add", "store", "yield", "yield", "yield",
                          "splat", "reduce", "add", "yield", "store"));
  EXPECT_THAT(visited([](const auto& kernel, auto visit) { for_each_op_postorder(kernel, visit); }),
              ElementsAre("constant", "constant", "cmp", "add", "store", "yield", "yield", "if", "yield", "for",
                          "splat", "add", "yield", "reduce", "store"));
}

TEST_F(IrToolbox, AWalkOfAnOpBeginsWithIt) {
  std::vector<std::string> names;
  for_each_op(op_of(kernel_, OpCode::kIf), [&](const Op& op) { names.push_back(info(op.code).name); });
  EXPECT_THAT(names, ElementsAre("if", "add", "store", "yield", "yield"));
}

TEST_F(IrToolbox, RegionsComeBeforeOrBehindThoseInside) {
  std::vector<size_t> before, behind;
  for_each_region(kernel_, [&](const Region& region) { before.push_back(region.ops.size()); });
  for_each_region_postorder(kernel_, [&](const Region& region) { behind.push_back(region.ops.size()); });
  EXPECT_THAT(before, ElementsAre(6, 3, 3, 1, 2));
  EXPECT_THAT(behind, ElementsAre(3, 1, 3, 2, 6));
}

TEST_F(IrToolbox, TheFirstOpIsFoundAtAnyDepth) {
  const Op* add = find_op(kernel_, [](const Op& op) { return op.code == OpCode::kAdd; });
  ASSERT_NE(add, nullptr);
  EXPECT_EQ(kernel_.values[add->results[0]].name, "twice");
  EXPECT_EQ(find_op(kernel_, [](const Op& op) { return op.code == OpCode::kDot; }), nullptr);
  EXPECT_TRUE(any_op(op_of(kernel_, OpCode::kReduce), [](const Op& op) { return op.code == OpCode::kReduce; }));
  EXPECT_TRUE(any_op(op_of(kernel_, OpCode::kReduce), [](const Op& op) { return op.code == OpCode::kAdd; }));
  EXPECT_FALSE(any_op(op_of(kernel_, OpCode::kReduce), [](const Op& op) { return op.code == OpCode::kStore; }));
  EXPECT_FALSE(
      any_op(op_of(kernel_, OpCode::kReduce).regions[0], [](const Op& op) { return op.code == OpCode::kReduce; }));
}

// A list may be longer than any stack: only nesting recurses.
TEST_F(IrToolbox, WalksAreNotDeepWhereListsAreLong) {
  Kernel kernel;
  kernel.values.push_back({scalar_type(ElementType::kI32), ""});
  kernel.params.push_back({"n", kernel.values[0].type, false, 0, false});
  constexpr uint32_t kLength = 200'000;
  ValueId last = 0;
  for (uint32_t i = 0; i < kLength; ++i) {
    const ValueId next = fresh_value(kernel, scalar_type(ElementType::kI32));
    kernel.body.ops.push_back({OpCode::kAdd, {last, last}, {next}, {}, {}, {}});
    last = next;
  }
  kernel.body.ops.push_back({OpCode::kPrint, {last}, {}, {std::string("last")}, {}, {}});
  EXPECT_TRUE(has_effect(kernel.body));
  EXPECT_FALSE(may_write(kernel.body));
  EXPECT_EQ(DefUse(kernel).uses(0), 2u);
  ValueMap map;
  EXPECT_EQ(clone(kernel, kernel.body, map).ops.size(), kLength + 1);
  EXPECT_EQ(kernel.values.size(), 2 * kLength + 1);
  EXPECT_EQ(map[last], 2 * kLength);
}

TEST_F(IrToolbox, TraitsAreThoseOfTheOpsInside) {
  const Op &loop = op_of(kernel_, OpCode::kFor), &reduce = op_of(kernel_, OpCode::kReduce);
  EXPECT_TRUE(may_write(loop));
  EXPECT_TRUE(has_effect(loop));
  EXPECT_TRUE(touches_memory(loop));
  EXPECT_FALSE(may_read(loop));
  EXPECT_TRUE(may_write(loop.regions[0]));
  EXPECT_FALSE(has_effect(reduce));
  EXPECT_FALSE(touches_memory(reduce));
  // Of the op itself.
  EXPECT_TRUE(is_pure(reduce));
  EXPECT_FALSE(is_pure(loop));
  EXPECT_FALSE(is_elementwise(reduce));
  EXPECT_TRUE(is_elementwise(reduce.regions[0].ops[0]));
  // What states something keeps its place, and writes nothing.
  const Kernel assumes = parsed("kernel k(%n: i32) {\n  assume %n {multiple_of = 16}\n}\n");
  EXPECT_TRUE(has_effect(assumes.body));
  EXPECT_FALSE(may_write(assumes.body));
}

TEST_F(IrToolbox, DefUseKnowsOpRegionAndUsersOfEachValue) {
  const DefUse table(kernel_);
  const Op &loop = op_of(kernel_, OpCode::kFor), &branch = op_of(kernel_, OpCode::kIf);
  const ValueId acc = named(kernel_, "acc"), twice = named(kernel_, "twice"), p = named(kernel_, "p");
  EXPECT_EQ(table.definition(named(kernel_, "sum")), &loop);
  EXPECT_EQ(table.definition(acc), nullptr);
  EXPECT_EQ(table.definition(p), nullptr);
  EXPECT_EQ(table.region(p), &kernel_.body);
  EXPECT_EQ(table.region(acc), &loop.regions[0]);
  EXPECT_EQ(table.region(twice), &branch.regions[0]);
  EXPECT_EQ(table.region(named(kernel_, "sum")), &kernel_.body);
  // An op that takes a value twice comes twice; other regions' ops count.
  const Op& add = branch.regions[0].ops[0];
  const auto users = table.users(acc);
  EXPECT_THAT(std::vector(users.begin(), users.end()), ElementsAre(&add, &add, &branch.regions[1].ops.back()));
  EXPECT_EQ(table.uses(p), 2u);
  EXPECT_EQ(table.uses(named(kernel_, "total")), 1u);
  EXPECT_TRUE(is_used(kernel_, named(kernel_, "l")));
  EXPECT_FALSE(is_used(parsed("kernel k(%n: i32) {\n  %a = add %n, %n : i32\n}\n"), 1));
}

TEST_F(IrToolbox, TablesSayTheSameOfTheLibrarysKernels) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("dsl/examples"))) {
    SCOPED_TRACE(entry.path());
    const Kernel kernel = parsed(read_file(entry.path()));
    ++files;
    const DefUse table(kernel);
    const std::vector<const Op*> defined = dsl::definitions(kernel);
    const std::vector<uint32_t> counts = count_uses(kernel);
    for (ValueId id = 0; id < kernel.values.size(); ++id) {
      EXPECT_EQ(table.definition(id), defined[id]);
      EXPECT_EQ(table.uses(id), counts[id]);
      EXPECT_EQ(is_used(kernel, id), counts[id] > 0);
      for (const Op* user : table.users(id)) EXPECT_THAT(user->operands, ::testing::Contains(id));
      if (defined[id]) {
        EXPECT_THAT(defined[id]->results, ::testing::Contains(id));
      }
    }
  }
  EXPECT_GT(files, 50u);
}

TEST_F(IrToolbox, UsesAreReplacedAtAnyDepthAndDefinitionsAreNot) {
  const ValueId acc = named(kernel_, "acc"), x = named(kernel_, "x");
  replace_uses(kernel_.body, acc, x);
  EXPECT_FALSE(is_used(kernel_, acc));
  EXPECT_EQ(count_uses(kernel_)[x], 4u);
  EXPECT_EQ(op_of(kernel_, OpCode::kFor).regions[0].args[1], acc);
  EXPECT_TRUE(verify(kernel_).ok());

  ValueMap map;
  map.set(x, acc);
  EXPECT_EQ(map[x], acc);
  EXPECT_EQ(map[acc], acc);
  EXPECT_TRUE(map.contains(x));
  EXPECT_FALSE(map.contains(acc));
  replace_uses(kernel_.body.ops[2].regions[0], map);
  EXPECT_EQ(count_uses(kernel_)[acc], 3u);
  EXPECT_EQ(count_uses(kernel_)[x], 1u);  // the loop's first value
}

// A copy behind the original is a kernel still, and nothing of it is shared.
TEST_F(IrToolbox, AClonedOpHasValuesOfItsOwn) {
  const size_t before = kernel_.values.size();
  ValueMap map;
  map.set(named(kernel_, "x"), named(kernel_, "total"));
  Op copy = clone(kernel_, op_of(kernel_, OpCode::kFor), map);
  EXPECT_EQ(copy.operands[3], named(kernel_, "total"));
  EXPECT_EQ(copy.operands[1], named(kernel_, "n"));
  EXPECT_EQ(map[named(kernel_, "sum")], copy.results[0]);
  EXPECT_EQ(map[named(kernel_, "twice")],
            find_op(copy.regions[0], [](const Op& op) { return op.code == OpCode::kAdd; })->results[0]);
  for_each_region(copy.regions[0], [&](const Region& region) {
    for (ValueId id : region.args) EXPECT_GE(id, before);
    for (const Op& op : region.ops) {
      for (ValueId id : op.results) EXPECT_GE(id, before);
    }
  });
  kernel_.body.ops.insert(kernel_.body.ops.end() - 1, std::move(copy));
  auto valid = verify(kernel_);
  EXPECT_TRUE(valid.ok()) << valid.error().message;
}

TEST_F(IrToolbox, AClonedRegionIsThatRegionAgain) {
  for (Value& value : kernel_.values) value.name.clear();  // new values have none
  Op& reduce = kernel_.body.ops[4];
  const auto before = encode_kernel(canonicalise(kernel_));
  const Region copy = clone(kernel_, reduce.regions[0]);
  EXPECT_NE(copy.args, reduce.regions[0].args);
  reduce.regions[0] = copy;
  EXPECT_TRUE(verify(kernel_).ok());
  EXPECT_EQ(encode_kernel(canonicalise(kernel_)), before);
}

TEST_F(IrToolbox, RewritesReplaceDropAndAddOpsInsideFirst) {
  std::vector<std::string> seen;
  rewrite_ops(kernel_, [&](Op& op, std::vector<Op>& out) {
    seen.push_back(info(op.code).name);
    if (op.code == OpCode::kStore) return;  // goes
    const bool doubles = op.code == OpCode::kAdd;
    const ValueId result = op.results.empty() ? kNoValue : op.results[0];
    if (doubles) op.results = {fresh_value(kernel_, kernel_.type(result))};
    const ValueId inner = doubles ? op.results[0] : kNoValue;
    out.push_back(std::move(op));
    if (!doubles) return;
    out.push_back({OpCode::kNeg, {inner}, {result}, {}, {}, {}});
  });
  EXPECT_THAT(seen, ElementsAre("constant", "constant", "cmp", "add", "store", "yield", "yield", "if", "yield", "for",
                                "splat", "add", "yield", "reduce", "store"));
  EXPECT_THAT(names_of(kernel_.body.ops), ElementsAre("constant", "constant", "for", "splat", "reduce"));
  EXPECT_THAT(names_of(op_of(kernel_, OpCode::kReduce).regions[0].ops), ElementsAre("add", "neg", "yield"));
  auto valid = verify(kernel_);
  EXPECT_TRUE(valid.ok()) << valid.error().message;
}

}  // namespace
}  // namespace kiln::dsl::testing
