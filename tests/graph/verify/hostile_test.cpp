// Graphs with anything in their fields: verify() says that they are wrong, or they are not; it never crashes or hangs.
// Passes on graphs of others say what it says.
#include <gtest/gtest.h>

#include "graph/generator.h"
#include "kiln/graph/decompose.h"
#include "kiln/graph/recognise.h"
#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"
#include "sampled.h"

namespace kiln::graph {
namespace {

using random_graph::Random;

uint32_t any_number(Random& random) {
  const uint32_t numbers[] = {0, 1, 2, 3, 7, 16, 255, 256, 4096, kNone, kNone - 1, kNone / 2, 1u << 31};
  return random.pick(numbers);
}

int64_t any_int(Random& random) {
  const int64_t numbers[] = {0,
                             1,
                             -1,
                             2,
                             3,
                             17,
                             100,
                             -100,
                             int64_t{1} << 31,
                             int64_t{1} << 40,
                             int64_t{1} << 53,
                             int64_t{1} << 62,
                             std::numeric_limits<int64_t>::min(),
                             std::numeric_limits<int64_t>::max()};
  return random.pick(numbers);
}

Expr any_expr(Random& random, int depth) {
  switch (depth == 0 ? random.below(3) : random.below(6)) {
    case 0:
      return Expr(any_int(random));
    case 1:
      return Expr::constexpr_ref(static_cast<uint32_t>(random.below(5)));
    case 2:
      return random.chance(10) ? Expr::param_ref(0) : Expr(random.below(5));
    case 3:
      return any_expr(random, depth - 1) * any_expr(random, depth - 1);
    case 4:
      return any_expr(random, depth - 1) + any_expr(random, depth - 1);
    default:
      return Expr::apply(static_cast<dsl::AtomKind>(random.between(2, 9)), any_expr(random, depth - 1),
                         any_expr(random, depth - 1));
  }
}

Attr any_attr(Random& random) {
  switch (random.below(9)) {
    case 0:
      return any_int(random);
    case 1:
      return static_cast<double>(any_int(random));
    case 2:
      return any_expr(random, 3);
    case 3: {
      std::vector<Expr> out;
      for (int64_t left = random.below(18); left > 0; --left) out.push_back(any_expr(random, 2));
      return out;
    }
    case 4: {
      std::vector<int64_t> out;
      for (int64_t left = random.below(6); left > 0; --left) out.push_back(any_int(random));
      return out;
    }
    case 5:
      return static_cast<ElementType>(random.below(20));
    case 6:
      return Literal{random.word()};
    case 7:
      return std::vector<uint64_t>(static_cast<size_t>(random.below(9)), random.word());
    default:
      return std::string("any");
  }
}

// One field of an attribute's value, so that its kind stays right.
void disturb(Random& random, Attr& attr) {
  if (auto* number = std::get_if<int64_t>(&attr)) *number = any_int(random);
  if (auto* expr = std::get_if<Expr>(&attr)) *expr = any_expr(random, 3);
  if (auto* shape = std::get_if<std::vector<Expr>>(&attr); shape && !shape->empty()) {
    (*shape)[static_cast<size_t>(random.below(static_cast<int64_t>(shape->size())))] = any_expr(random, 2);
  }
  if (auto* ints = std::get_if<std::vector<int64_t>>(&attr); ints && !ints->empty()) {
    (*ints)[static_cast<size_t>(random.below(static_cast<int64_t>(ints->size())))] = any_int(random);
  }
}

template <class Items>
auto* any_of(Random& random, Items& items) {
  return items.empty() ? nullptr : &items[static_cast<size_t>(random.below(static_cast<int64_t>(items.size())))];
}

void disturb_body(Random& random, Body& body) {
  switch (random.below(8)) {
    case 0:
      if (auto* operand = any_of(random, body.operands)) *operand = any_number(random);
      break;
    case 1:
      if (auto* value = any_of(random, body.values))
        (random.chance(50) ? value->type : value->node) = any_number(random);
      break;
    case 2:
      if (auto* input = any_of(random, body.inputs))
        (random.chance(50) ? input->value : input->donated_to) = any_number(random);
      break;
    case 3:
      if (auto* output = any_of(random, body.outputs)) output->value = any_number(random);
      break;
    case 4:
      body.names[any_number(random)] = "x0";
      break;
    default:
      if (auto* node = any_of(random, body.nodes)) {
        uint32_t* fields[] = {&node->attrs,        &node->first_operand, &node->operand_count,
                              &node->first_result, &node->result_count,  &node->loc.file};
        if (random.chance(40)) {
          node->op = static_cast<TensorOp>(random.below(256));
        } else {
          *random.pick(fields) = any_number(random);
        }
      }
  }
}

void disturb(Random& random, Graph& graph) {
  switch (random.below(7)) {
    case 0:
      if (auto* dim = any_of(random, graph.dims)) {
        int64_t* fields[] = {&dim->low, &dim->high, &dim->multiple};
        *random.pick(fields) = any_int(random);
      }
      break;
    case 1:
      if (auto* type = any_of(random, graph.types)) {
        type->element = static_cast<ElementType>(random.below(16));
        if (auto* extent = any_of(random, type->shape)) *extent = any_expr(random, 3);
      }
      break;
    case 2:
    case 3:
      if (auto* list = any_of(random, graph.attr_lists); list && !list->empty()) {
        Attr& attr = *any_of(random, *list);
        if (random.chance(30)) {
          attr = any_attr(random);
        } else {
          disturb(random, attr);
        }
      }
      break;
    case 4:
      if (auto* kernel = any_of(random, graph.kernels)) {
        if (auto* argument = any_of(random, kernel->arguments)) argument->index = any_number(random);
        if (random.chance(50)) kernel->gradient = any_number(random);
      }
      break;
    default:
      disturb_body(random, *any_of(random, graph.bodies));
  }
}

TEST(Verify, TakesAnythingInItsFields) {
  Random random(11);
  const uint64_t rounds = kiln::test::runs_all_cases() ? 30'000 : 10'000;
  uint64_t refused = 0;
  for (uint64_t round = 0; round < rounds; ++round) {
    static Result<random_graph::Case> made = random_graph::make(0);
    if (round % 10 == 0) made = random_graph::make(round);
    ASSERT_TRUE(made) << made.error().message;
    Graph graph = made->graph;
    for (int64_t left = random.between(1, 3); left > 0; --left) disturb(random, graph);
    const auto found = verify(graph);
    const auto plain = decompose(graph);
    const auto recognised = recognise(graph);
    if (!found) {
      ++refused;
      EXPECT_EQ(found.error().code, ErrorCode::kVerifyFailed) << found.error().message;
      ASSERT_FALSE(plain || recognised);
      EXPECT_EQ(plain.error().message, found.error().message);
      EXPECT_EQ(recognised.error().message, found.error().message);
    } else {
      EXPECT_FALSE(print(graph).empty());
      EXPECT_TRUE(plain) << plain.error().message << "\n" << print(graph);
      EXPECT_TRUE(recognised) << recognised.error().message << "\n" << print(graph);
    }
  }
  EXPECT_GT(refused, rounds / 2);
}

}  // namespace
}  // namespace kiln::graph
