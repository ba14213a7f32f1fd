// Type rules: making tiles and changing their shape.
#include <algorithm>

#include "ir/infer_rules.h"

namespace kiln::dsl::infer {

Types make(const Rule& rule) {
  switch (rule.op.code) {
    case OpCode::kProgramId:
    case OpCode::kNumPrograms: {
      const int64_t axis = rule.number(0);
      if (axis < 0 || axis > 2) return rule.fail("axis " + std::to_string(axis) + " is not 0, 1 or 2");
      return std::vector<Type>{scalar_type(ElementType::kI32)};
    }
    case OpCode::kConstant: {
      const ElementType element = rule.element(1);
      if (const Expr* value = std::get_if<Expr>(&rule.attrs[0])) {
        auto known = value->as_constant();
        if (known && !int_fits(element, *known)) {
          return rule.fail(std::to_string(*known) + " is not a value of " + std::string(info(element).name));
        }
      }
      return std::vector<Type>{scalar_type(element)};
    }
    case OpCode::kArange: {
      std::vector<Expr> shape = {rule.expr(1) - rule.expr(0)};
      if (auto bad = check_extents(rule, shape)) return *bad;
      for (size_t attr : {0, 1}) {
        auto bound = rule.expr(attr).as_constant();
        // The end itself is no element.
        if (bound && !int_fits(ElementType::kI32, *bound - static_cast<int64_t>(attr))) {
          return rule.fail("an element of " + std::to_string(*bound) + " is beyond i32");
        }
      }
      return std::vector<Type>{tile_type(ElementType::kI32, shape)};
    }
    default: {  // kSplat
      if (!rule.in[0].is_scalar()) return rule.fail("takes a scalar; use broadcast for a tile");
      if (auto bad = check_extents(rule, rule.list(0))) return *bad;
      return std::vector<Type>{{rule.in[0].element, rule.in[0].pointer, rule.list(0)}};
    }
  }
}

namespace {

Types broadcast(const Rule& rule) {
  Type out = rule.in[0];
  const std::vector<Expr>& shape = rule.list(0);
  if (static_cast<int>(shape.size()) != out.rank()) return rule.fail("keeps the rank; use expand_dims first");
  if (auto bad = check_extents(rule, shape)) return *bad;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!may_equal(out.shape[i], shape[i]) && !may_equal(out.shape[i], Expr(1))) {
      return rule.fail("axis " + std::to_string(i) + " of extent " + rule.text(out.shape[i]) + " cannot become " +
                       rule.text(shape[i]));
    }
  }
  out.shape = shape;
  return std::vector<Type>{out};
}

Types expand_dims(const Rule& rule) {
  Type out = rule.in[0];
  const int64_t axis = rule.number(0);
  if (axis < 0 || axis > out.rank()) return rule.fail("axis " + std::to_string(axis) + " is outside 0…rank");
  if (out.rank() == 5) return rule.fail("the rank would be above 5");
  out.shape.insert(out.shape.begin() + axis, Expr(1));
  return std::vector<Type>{out};
}

Expr product(const std::vector<Expr>& shape) {
  Expr out(1);
  for (const Expr& extent : shape) out = out * extent;
  return out;
}

Types reshape(const Rule& rule) {
  Type out = rule.in[0];
  if (auto bad = check_extents(rule, rule.list(0))) return *bad;
  const Expr before = product(out.shape), after = product(rule.list(0));
  if (!may_equal(before, after)) {
    return rule.fail("the shape has " + rule.text(after) + " elements, not " + rule.text(before));
  }
  out.shape = rule.list(0);
  return std::vector<Type>{out};
}

Types permute(const Rule& rule) {
  Type out = rule.in[0];
  const int rank = out.rank();
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  std::vector<Expr> shape;
  for (const Expr& axis : rule.list(0)) {
    const int64_t index = axis.as_constant().value_or(-1);
    if (index < 0 || index >= rank || seen[static_cast<size_t>(index)]) {
      return rule.fail("order is not a permutation of the axes");
    }
    seen[static_cast<size_t>(index)] = true;
    shape.push_back(out.shape[static_cast<size_t>(index)]);
  }
  if (static_cast<int>(shape.size()) != rank) return rule.fail("order is not a permutation of the axes");
  out.shape = shape;
  return std::vector<Type>{out};
}

Types join(const Rule& rule) {
  if (auto bad = check_same_shape(rule)) return *bad;
  if (auto bad = check_same_type(rule, 0, 1)) return *bad;
  Type out = rule.in[0];
  if (out.rank() == 5) return rule.fail("the rank would be above 5");
  out.shape.emplace_back(2);
  return std::vector<Type>{out};
}

Types split(const Rule& rule) {
  Type out = rule.in[0];
  if (out.rank() == 0 || !may_equal(out.shape.back(), Expr(2))) return rule.fail("the last extent must be 2");
  out.shape.pop_back();
  return std::vector<Type>{out, out};
}

// All extents but the one along the axis.
bool others_equal(const Type& a, const Type& b, size_t axis) {
  if (a.rank() != b.rank()) return false;
  for (size_t i = 0; i < a.shape.size(); ++i) {
    if (i != axis && !may_equal(a.shape[i], b.shape[i])) return false;
  }
  return true;
}

Types cat(const Rule& rule) {
  if (auto bad = check_same_type(rule, 0, 1)) return *bad;
  Type out = rule.in[0];
  if (auto bad = check_axis(rule, rule.number(0), out.rank())) return *bad;
  const auto axis = static_cast<size_t>(rule.number(0));
  if (!others_equal(out, rule.in[1], axis))
    return rule.fail("the extents beside axis " + std::to_string(axis) + " differ");
  out.shape[axis] = out.shape[axis] + rule.in[1].shape[axis];
  if (auto bad = check_extents(rule, out.shape)) return *bad;
  return std::vector<Type>{out};
}

Types slice(const Rule& rule) {
  Type out = rule.in[0];
  if (auto bad = check_axis(rule, rule.number(0), out.rank())) return *bad;
  Expr& extent = out.shape[static_cast<size_t>(rule.number(0))];
  const Expr &start = rule.expr(1), &end = rule.expr(2);
  if (start.as_constant().value_or(0) < 0 || (end - start).as_constant().value_or(1) < 1 ||
      (extent - end).as_constant().value_or(0) < 0) {
    return rule.fail(rule.text(start) + " to " + rule.text(end) + " is no part of an extent of " + rule.text(extent));
  }
  extent = end - start;
  return std::vector<Type>{out};
}

Types gather(const Rule& rule) {
  const Type &src = rule.in[0], &index = rule.in[1];
  if (!is_index(index)) return rule.fail("the index must be an int");
  if (auto bad = check_axis(rule, rule.number(0), src.rank())) return *bad;
  const auto axis = static_cast<size_t>(rule.number(0));
  if (!others_equal(src, index, axis)) return rule.fail("the extents beside axis " + std::to_string(axis) + " differ");
  return std::vector<Type>{{src.element, src.pointer, index.shape}};
}

}  // namespace

Types shape(const Rule& rule) {
  switch (rule.op.code) {
    case OpCode::kBroadcast:
      return broadcast(rule);
    case OpCode::kExpandDims:
      return expand_dims(rule);
    case OpCode::kReshape:
      return reshape(rule);
    case OpCode::kPermute:
      return permute(rule);
    case OpCode::kJoin:
      return join(rule);
    case OpCode::kSplit:
      return split(rule);
    case OpCode::kCat:
      return cat(rule);
    case OpCode::kSlice:
      return slice(rule);
    default:
      return gather(rule);
  }
}

}  // namespace kiln::dsl::infer
