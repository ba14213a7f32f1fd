// Random kernels in text form whose results are exact on every target: what they compute depends on order of memory
// operations, masks, loops and layout, never on rounding.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "differential.h"

namespace kiln::test {

class RandomText {
 public:
  explicit RandomText(uint32_t seed) : random_(seed), kernel_(kParams) {
    static constexpr int64_t kRows[] = {1, 2, 3, 4, 7, 18}, kColumns[] = {1, 2, 3, 5, 16, 17, 33, 64, 65, 130};
    rank_ = pick(4) == 0 ? 1 : 2;
    shape_ = {kColumns[pick(std::size(kColumns))]};
    if (rank_ == 2) {
      shape_.insert(shape_.begin(), kRows[pick(std::size(kRows))]);
      if (pick(3) == 0) std::swap(shape_[0], shape_[1]);
    }
  }

  std::string make() {
    define("%a", kScalar, "i32");
    define("%b", kScalar, "i32");
    for (Kind kind : kinds())
      define(kernel_.along(shape(kind), static_cast<size_t>(kind == kRow ? 0 : rank_ - 1)), kind, "i32");
    for (int i = 0; i < 3; ++i) load();
    fill(8 + pick(14), 0);
    store();
    store();
    return kernel_.text();
  }

  std::vector<TestArgument> arguments() {
    size_t count = kSlack;
    int64_t product = 1;
    for (int64_t extent : shape_) product *= extent;
    count += static_cast<size_t>(product);
    std::vector<TestArgument> out;
    for (uint32_t i = 0; i < 3; ++i) out.push_back(random_buffer(dsl::ElementType::kF32, count, pick(1000)));
    for (uint32_t i = 0; i < 2; ++i) out.push_back(random_buffer(dsl::ElementType::kI32, count, pick(1000)));
    out.push_back(int_scalar(pick(static_cast<size_t>(shape_[0]) + 2)));
    out.push_back(int_scalar(pick(static_cast<size_t>(shape_.back()) + 2)));
    return out;
  }

 private:
  static constexpr char kParams[] =
      "%x: ptr<f32> readonly, %y: ptr<f32>, %z: ptr<f32>, %u: ptr<i32> readonly, %v: ptr<i32>, %a: i32, %b: i32";
  static constexpr size_t kSlack = 3;
  enum Kind { kScalar, kFull, kRow, kColumn };  // kRow: one value a row, [R, 1]
  struct Value {
    std::string name;
    Kind kind;
    std::string type;
  };

  uint32_t pick(size_t below) { return static_cast<uint32_t>(random_() % below); }
  std::vector<Kind> kinds() const {
    return rank_ == 1 ? std::vector<Kind>{kFull} : std::vector<Kind>{kFull, kRow, kColumn};
  }
  Kind any_kind() { return rank_ == 1 || pick(2) ? kFull : pick(2) ? kRow : kColumn; }
  TextKernel::Shape shape(Kind kind) const {
    if (kind == kRow) return {shape_[0], 1};
    if (kind == kColumn) return {1, shape_[1]};
    return shape_;
  }
  std::string define(const std::string& name, Kind kind, const std::string& type) {
    scope_.push_back({name, kind, type});
    return name;
  }
  std::string emit(const std::string& expression, Kind kind, const std::string& type) {
    return define(kernel_.op(expression), kind, type);
  }

  std::string value(Kind kind, const std::string& type) {
    std::vector<std::string> fitting;
    for (const Value& v : scope_) {
      if (v.kind == kind && v.type == type) fitting.push_back(v.name);
    }
    if (!fitting.empty() && pick(8)) return fitting[pick(fitting.size())];
    if (kind == kScalar) return define(kernel_.constant(std::to_string(pick(5)), type), kind, type);
    if (type == "i1") return compare(kind);
    if (kind == kFull && rank_ == 2 && pick(2)) {
      const std::string thin = value(pick(2) ? kRow : kColumn, type);
      return emit("broadcast " + thin + " {shape = " + TextKernel::list(shape_) + "}", kind, type);
    }
    return emit("splat " + value(kScalar, type) + " {shape = " + TextKernel::list(shape(kind)) + "}", kind, type);
  }

  std::string compare(Kind kind) {
    static const char* kPredicates[] = {"lt", "le", "gt", "ge", "eq", "ne"};
    const std::string type = pick(3) ? "i32" : "f32";
    return emit(
        "cmp " + value(kind, type) + ", " + value(kind, type) + " {pred = " + kPredicates[pick(pick(2) ? 2 : 6)] + "}",
        kind, "i1");
  }

  std::string bounds(Kind kind) {
    if (rank_ == 1) return define(kernel_.mask(shape_, {"%b"}), kind, "i1");
    const uint32_t which = kind == kRow ? 1 : kind == kColumn ? 2 : 1 + pick(3);
    return define(kernel_.mask(shape(kind), {which & 1 ? "%a" : "", which & 2 ? "%b" : ""}), kind, "i1");
  }

  // ", mask" or nothing.
  std::string mask(Kind kind) {
    switch (pick(4)) {
      case 0:
        return "";
      case 1:
        return ", " + value(kind, "i1");
      default:
        return ", " + bounds(kind);
    }
  }

  std::string pointers(const std::string& param, Kind kind) {
    const int64_t offset = pick(2) ? 0 : pick(kSlack + 1);
    TextKernel::Shape strides;
    if (rank_ == 2 && pick(4) == 0) strides = {1, shape_[0]};
    return kernel_.pointers(param, shape(kind), offset, strides);
  }

  void load() {
    const Kind kind = any_kind();
    const bool is_float = pick(3) != 0;
    const std::string param = is_float ? std::string(1, "xyzy"[pick(4)]) : std::string(1, "uv"[pick(2)]);
    const std::string type = is_float ? "f32" : "i32";
    last_pointers_ = pointers("%" + param, kind);
    last_param_ = param;
    last_kind_ = kind;
    std::string extra = mask(kind);
    if (!extra.empty() && pick(2)) extra += ", " + value(kind, type);
    emit("load " + last_pointers_ + extra, kind, type);
  }

  void store() {
    Kind kind = any_kind();
    const bool is_float = pick(3) != 0;
    std::string param = is_float ? std::string(1, "yz"[pick(2)]) : "v";
    std::string where;
    // Often in place.
    if (!last_pointers_.empty() && last_param_ != "x" && last_param_ != "u" && pick(2)) {
      kind = last_kind_;
      param = last_param_;
      where = last_pointers_;
    } else {
      where = pointers("%" + param, kind);
    }
    const std::string stored = value(kind, param == "v" ? "i32" : "f32");
    kernel_.line("store " + where + ", " + stored + mask(kind));
  }

  void float_op() {
    const Kind kind = any_kind();
    auto x = [&] { return value(kind, "f32"); };
    switch (pick(8)) {
      case 0:
        emit("add " + x() + ", " + x(), kind, "f32");
        break;
      case 1:
        emit("sub " + x() + ", " + x(), kind, "f32");
        break;
      case 2:
        emit("mul " + x() + ", " + x(), kind, "f32");
        break;
      case 3:
        emit((pick(2) ? "min " : "max ") + x() + ", " + x(), kind, "f32");
        break;
      case 4:
        emit("select " + value(kind, "i1") + ", " + x() + ", " + x(), kind, "f32");
        break;
      case 5:
        emit("cast " + value(kind, "i32") + " {to = f32}", kind, "f32");
        break;
      default: {
        // Counted as expensive.
        static const char* kFunctions[] = {"sqrt", "floor", "round"};
        emit("math " + x() + " {fn = " + kFunctions[pick(3)] + "}", kind, "f32");
      }
    }
  }

  void int_op() {
    const Kind kind = any_kind();
    auto x = [&] { return value(kind, "i32"); };
    switch (pick(6)) {
      case 0:
        emit("add " + x() + ", " + x(), kind, "i32");
        break;
      case 1:
        emit("xor " + x() + ", " + x(), kind, "i32");
        break;
      case 2:
        emit("rem " + x() + ", " + x(), kind, "i32");
        break;
      case 3:
        emit("cast " + value(kind, "f32") + " {to = i32}", kind, "i32");
        break;
      case 4:
        emit("select " + value(kind, "i1") + ", " + x() + ", " + x(), kind, "i32");
        break;
      default:
        emit("and " + value(kind, "i1") + ", " + value(kind, "i1"), kind, "i1");
    }
  }

  void reduce() {
    const bool is_float = pick(2);
    const std::string type = is_float ? "f32" : "i32", x = value(kFull, type);
    static const char* kKinds[] = {"min", "max", "sum", "prod"};
    const std::string kind = kKinds[pick(is_float ? 2 : 4)];
    if (rank_ == 1) {
      emit("reduce " + x + " {kind = " + kind + ", axis = 0}", kScalar, type);
      return;
    }
    const int axis = static_cast<int>(pick(2));
    const std::string line = kernel_.op("reduce " + x + " {kind = " + kind + ", axis = " + std::to_string(axis) + "}");
    if (pick(4) == 0) {
      emit("reduce " + line + " {kind = " + kind + ", axis = 0}", kScalar, type);
    } else {
      emit("expand_dims " + line + " {axis = " + std::to_string(axis) + "}", axis == 1 ? kRow : kColumn, type);
    }
  }

  // i8 operands: exact.
  void dot() {
    if (rank_ == 1) return reduce();
    const std::string a = kernel_.op("cast " + value(kFull, "i32") + " {to = i8}");
    const std::string b =
        kernel_.op("permute " + kernel_.op("cast " + value(kFull, "i32") + " {to = i8}") + " {order = [1, 0]}");
    const std::string square = TextKernel::list({shape_[0], shape_[0]});
    const std::string acc = kernel_.op("splat " + value(kScalar, "i32") + " {shape = " + square + "}");
    std::string c = kernel_.op("dot " + a + ", " + b + ", " + acc);
    if (pick(2)) c = kernel_.op("dot " + a + ", " + b + ", " + c);
    const std::string line = kernel_.op("reduce " + c + " {kind = max, axis = " + std::to_string(pick(2)) + "}");
    emit("expand_dims " + line + " {axis = 1}", kRow, "i32");
  }

  void loop(int depth) {
    struct Carried {
      Kind kind;
      std::string type, argument;
    };
    std::vector<Carried> carried;
    std::string inits, results;
    for (uint32_t i = 0, n = 1 + pick(3); i < n; ++i) {
      Carried one{pick(4) ? any_kind() : kScalar, pick(2) ? "f32" : "i32", "%c" + std::to_string(next_)};
      inits += (inits.empty() ? "" : ", ") + one.argument + " = " + value(one.kind, one.type);
      results += (results.empty() ? "%r" : ", %r") + std::to_string(next_++);
      carried.push_back(one);
    }
    const std::string low = kernel_.constant("0", "i32"), high = kernel_.constant(std::to_string(pick(4)), "i32");
    const std::string step = kernel_.constant(std::to_string(1 + pick(2)), "i32"),
                      index = "%k" + std::to_string(next_++);
    kernel_.line(results + " = for " + index + " = " + low + " to " + high + " step " + step + " carry (" + inits +
                 ") {");
    const size_t outer = scope_.size();
    const std::string outer_pointers = last_pointers_;
    const Kind outer_kind = last_kind_;
    const std::string outer_param = last_param_;
    define(index, kScalar, "i32");
    for (const Carried& one : carried) define(one.argument, one.kind, one.type);
    fill(2 + pick(6), depth + 1);
    std::string yields;
    for (const Carried& one : carried) {
      // Also other carried values, as they are.
      const Carried& other = carried[pick(carried.size())];
      const bool as_it_is = other.kind == one.kind && other.type == one.type && pick(3) == 0;
      yields += (yields.empty() ? "yield " : ", ");
      std::string next = as_it_is ? other.argument : value(one.kind, one.type);
      yields += next;
    }
    kernel_.line(yields).line("}");
    scope_.resize(outer);
    last_pointers_ = outer_pointers;
    last_kind_ = outer_kind;
    last_param_ = outer_param;
    for (size_t i = 0, at = 0; i < carried.size(); ++i) {
      const size_t comma = results.find(", ", at);
      define(results.substr(at, comma == std::string::npos ? comma : comma - at), carried[i].kind, carried[i].type);
      at = comma + 2;
    }
  }

  void fill(uint32_t count, int depth) {
    for (uint32_t i = 0; i < count; ++i) {
      switch (pick(12)) {
        case 0:
        case 1:
          load();
          break;
        case 2:
        case 3:
          store();
          break;
        case 4:
        case 5:
          int_op();
          break;
        case 6:
        case 7:
          reduce();
          break;
        case 8:
          if (depth < 2 && pick(2)) loop(depth);
          break;
        case 9:
          if (pick(3) == 0) dot();
          break;
        default:
          float_op();
      }
    }
  }

  std::mt19937 random_;
  TextKernel kernel_;
  int rank_;
  TextKernel::Shape shape_;
  std::vector<Value> scope_;
  std::string last_pointers_, last_param_;
  Kind last_kind_ = kFull;
  int next_ = 0;
};

}  // namespace kiln::test
