// Type rules: memory behind pointers and behind descriptors.
#include "ir/infer_rules.h"

namespace kiln::dsl::infer {
namespace {

Types addptr(const Rule& rule) {
  const Type &pointer = rule.in[0], &offset = rule.in[1];
  if (!is_index(offset)) return rule.fail("the offset must be an int");
  if (!may_equal(offset.shape, pointer.shape)) {
    return rule.fail("pointer and offset have different shapes; broadcast one of them");
  }
  return std::vector<Type>{pointer};
}

Problem check_mask(const Rule& rule, size_t operand) {
  if (rule.in.size() <= operand) return std::nullopt;
  if (rule.in[operand].element == ElementType::kI1 && rule.in[operand].is_value()) return std::nullopt;
  return rule.fail("the mask must be i1");
}

// An operand that goes to or stands for an element of memory.
Problem check_element(const Rule& rule, size_t operand, const char* what) {
  if (rule.in.size() <= operand) return std::nullopt;
  if (rule.in[operand].element == rule.in[0].element && !rule.in[operand].pointer) return std::nullopt;
  return rule.fail(std::string(what) + " must have the pointer's element type " +
                   std::string(info(rule.in[0].element).name));
}

Types load(const Rule& rule) {
  if (auto bad = check_same_shape(rule)) return *bad;
  if (auto bad = check_mask(rule, 1)) return *bad;
  if (auto bad = check_element(rule, 2, "`other`")) return *bad;
  return std::vector<Type>{tile_type(rule.in[0].element, rule.in[0].shape)};
}

Types store(const Rule& rule) {
  if (auto bad = check_same_shape(rule)) return *bad;
  if (auto bad = check_mask(rule, 2)) return *bad;
  if (auto bad = check_element(rule, 1, "the stored value")) return *bad;
  return std::vector<Type>{};
}

Problem check_atomic(const Rule& rule, AtomicKind kind) {
  const ElementType element = rule.in[0].element;
  if (element == ElementType::kI1) return rule.fail("there are no atomics of i1");
  const bool bitwise = kind == AtomicKind::kAnd || kind == AtomicKind::kOr || kind == AtomicKind::kXor;
  if (bitwise && is_float(element)) return rule.fail("and, or and xor are for ints");
  return std::nullopt;
}

Types atomic(const Rule& rule) {
  const bool is_cas = rule.op.code == OpCode::kAtomicCas;
  if (auto bad = check_same_shape(rule)) return *bad;
  if (auto bad = check_mask(rule, is_cas ? 3 : 2)) return *bad;
  if (auto bad = check_element(rule, 1, is_cas ? "`expected`" : "the value")) return *bad;
  if (is_cas) {
    if (auto bad = check_element(rule, 2, "the value")) return *bad;
  }
  const AtomicKind kind = is_cas ? AtomicKind::kXchg : static_cast<AtomicKind>(rule.number(0));
  if (auto bad = check_atomic(rule, kind)) return *bad;
  return std::vector<Type>{tile_type(rule.in[0].element, rule.in[0].shape)};
}

bool is_scalar_index(const Type& type) { return type.is_scalar() && is_index(type); }

Types descriptor(const Rule& rule) {
  const std::vector<Expr>& block = rule.list(0);
  if (!rule.in[0].pointer || !rule.in[0].is_scalar()) return rule.fail("the base must be a scalar pointer");
  if (block.empty() || block.size() > 5) return rule.fail("a descriptor has rank 1 to 5");
  if (auto bad = check_extents(rule, block)) return *bad;
  const size_t wanted = 2 * block.size() - 1;
  if (rule.in.size() - 1 != wanted) {
    return rule.fail("rank " + std::to_string(block.size()) + " takes " + std::to_string(block.size()) +
                     " extents and " + std::to_string(block.size() - 1) + " strides, not " +
                     std::to_string(rule.in.size() - 1) + " numbers");
  }
  for (size_t i = 1; i < rule.in.size(); ++i) {
    if (!is_scalar_index(rule.in[i])) return rule.fail("extents and strides must be scalar ints");
  }
  if (static_cast<Fill>(rule.number(1)) == Fill::kNan && is_int(rule.in[0].element)) {
    return rule.fail("only floats can be filled with nan");
  }
  return std::vector<Type>{{rule.in[0].element, false, block, true}};
}

Problem check_offsets(const Rule& rule, size_t first) {
  const size_t rank = rule.in[0].shape.size();
  if (rule.in.size() - first != rank) {
    return rule.fail("takes " + std::to_string(rank) + " offsets, not " + std::to_string(rule.in.size() - first));
  }
  for (size_t i = first; i < rule.in.size(); ++i) {
    if (!is_scalar_index(rule.in[i])) return rule.fail("offsets must be scalar ints");
  }
  return std::nullopt;
}

Types tile(const Rule& rule) {
  const Type block = tile_type(rule.in[0].element, rule.in[0].shape);
  if (rule.op.code == OpCode::kLoadTile) {
    if (auto bad = check_offsets(rule, 1)) return *bad;
    return std::vector<Type>{block};
  }
  if (auto bad = check_offsets(rule, 2)) return *bad;
  if (!may_equal(rule.in[1], block)) return rule.fail("the value must be " + rule.text(block));
  if (rule.op.code == OpCode::kReduceTile) {
    if (auto bad = check_atomic(rule, static_cast<AtomicKind>(rule.number(0)))) return *bad;
  }
  return std::vector<Type>{};
}

Types gather_rows(const Rule& rule) {
  const Type &array = rule.in[0], &rows = rule.in[1];
  if (array.rank() != 2 || !may_equal(array.shape[0], Expr(1))) {
    return rule.fail("the descriptor must be of rank 2 with blocks of one row");
  }
  if (!is_index(rows) || rows.rank() != 1) return rule.fail("the rows must be an int tile of rank 1");
  if (!is_scalar_index(rule.in[2])) return rule.fail("the column must be a scalar int");
  return std::vector<Type>{tile_type(array.element, {rows.shape[0], array.shape[1]})};
}

}  // namespace

Types described(const Rule& rule) {
  switch (rule.op.code) {
    case OpCode::kDescriptor:
      return descriptor(rule);
    case OpCode::kGatherRows:
      return gather_rows(rule);
    default:
      return tile(rule);
  }
}

Types memory(const Rule& rule) {
  if (!rule.in[0].pointer) return rule.fail("the first operand must be a pointer");
  switch (rule.op.code) {
    case OpCode::kAddptr:
      return addptr(rule);
    case OpCode::kLoad:
      return load(rule);
    case OpCode::kStore:
      return store(rule);
    default:
      return atomic(rule);
  }
}

}  // namespace kiln::dsl::infer
