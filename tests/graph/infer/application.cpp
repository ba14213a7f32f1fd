#include "infer/application.h"

#include <cstdlib>

namespace kiln::graph::inferring {
namespace {

Graph make_ground() {
  GraphBuilder builder("ground");
  for (const DimInfo& dim : {DimInfo{"n", 1, 4096, 1}, {"m", 1, 4096, 1}, {"k", 8, 4096, 8}, {"z", 0, 16, 1}}) {
    EXPECT_TRUE(builder.add_dim(dim));
  }
  const TensorType scalar{ElementType::kF32, {}}, row{ElementType::kF32, {Expr::constexpr_ref(0)}};
  const TensorType four{ElementType::kF32, {Expr(4)}};
  builder.open_body("add");
  const ValueId a = *builder.add_input("a", scalar), b = *builder.add_input("b", scalar);
  EXPECT_TRUE(builder.add_output("y", *builder.add_one(TensorOp::kAdd, std::vector{a, b})));
  EXPECT_EQ(builder.close_body(), kAddBody);
  builder.open_body("pair");
  const ValueId x = *builder.add_input("x", row), w = *builder.add_input("w", four);
  EXPECT_TRUE(builder.add_output("x", x));
  EXPECT_TRUE(builder.add_output("w", w));
  EXPECT_EQ(builder.close_body(), kPairBody);
  builder.open_body("nothing");
  EXPECT_EQ(builder.close_body(), kNothingBody);
  TileKernel kernel;
  kernel.name = "twice";
  kernel.operands = {row};
  kernel.results = {row};
  EXPECT_TRUE(builder.add_kernel(std::move(kernel)));
  return builder.take();
}

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  Expr sum() {
    Expr out = product();
    for (;;) {
      if (takes('+')) {
        out = out + product();
      } else if (takes('-')) {
        out = out - product();
      } else {
        return out;
      }
    }
  }
  bool takes(char c) {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string word() {
    takes(' ');
    std::string out;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_])) != 0) out += text_[at_++];
    return out;
  }

 private:
  Expr product() {
    Expr out = factor();
    while (takes('*')) out = out * factor();
    return out;
  }
  Expr factor() {
    if (takes('-')) return Expr(-1) * factor();
    const std::string name = word();
    if (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0) {
      return Expr(std::strtoll(name.c_str(), nullptr, 10));
    }
    for (const dsl::AtomKind kind :
         {dsl::AtomKind::kDiv, dsl::AtomKind::kMin, dsl::AtomKind::kMax, dsl::AtomKind::kRem}) {
      if (name != dsl::to_string(kind)) continue;
      takes('(');
      const Expr a = sum();
      takes(',');
      const Expr b = sum();
      takes(')');
      return Expr::apply(kind, a, b);
    }
    const auto dim = ground().find_dim(name);
    EXPECT_TRUE(dim) << "`" << name << "` in " << text_;
    return Expr::constexpr_ref(dim.value_or(0));
  }

  std::string text_;
  size_t at_ = 0;
};

}  // namespace

const Graph& ground() {
  static const Graph graph = make_ground();
  return graph;
}

Expr expr(const std::string& text) { return Reader(text).sum(); }

Exprs exprs(const std::string& text) {
  Exprs out;
  if (text.empty()) return out;
  Reader reader(text);
  do {
    out.push_back(reader.sum());
  } while (reader.takes(','));
  return out;
}

TensorType type(const std::string& text) {
  const size_t open = text.find('[');
  const auto element = dsl::parse_element_type(text.substr(0, open));
  EXPECT_TRUE(element) << text;
  return {element.value_or(ElementType::kF32), exprs(text.substr(open + 1, text.size() - open - 2))};
}

std::string results(const Graph& graph, TensorOp op, const std::vector<std::string>& operands, AttrList attrs) {
  std::vector<TensorType> types;
  for (const std::string& text : operands) types.push_back(text == "-" ? TensorType() : type(text));
  std::vector<const TensorType*> pointers;
  for (size_t i = 0; i < types.size(); ++i) pointers.push_back(operands[i] == "-" ? nullptr : &types[i]);
  const auto inferred = infer_types(graph, op, pointers, with_default_attrs(op, std::move(attrs)));
  if (!inferred) return inferred.error().message;
  std::string out;
  for (const TensorType& each : *inferred) out += (out.empty() ? "" : ", ") + to_string(each, graph.expr_names());
  return out;
}

std::string results(TensorOp op, const std::vector<std::string>& operands, AttrList attrs) {
  return results(ground(), op, operands, std::move(attrs));
}

}  // namespace kiln::graph::inferring
