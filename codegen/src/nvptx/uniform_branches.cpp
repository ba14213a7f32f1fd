#include "nvptx/uniform_branches.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringRef.h>

#include "nvptx/asm.h"

namespace kiln::codegen::nvptx {
namespace {

constexpr llvm::StringLiteral kMark = "// uniform";

// The register that a line with a mark writes: "mov.pred %p2, %p1; // uniform". Nothing of another line.
llvm::StringRef marked_register(llvm::StringRef line) {
  if (!line.consume_back(kMark)) return {};
  line = line.trim();
  return line.consume_front("mov.pred") ? line.split(',').first.trim() : llvm::StringRef();
}

// Marked conditions and their negations, which LLVM writes as instructions: "not.pred %p4, %p2;".
class Predicates {
 public:
  void mark(llvm::StringRef name) { names_.assign(1, name); }
  void forget() { names_.clear(); }
  void follow(llvm::StringRef line) {
    if (!line.consume_front("not.pred")) return;
    const auto [negated, source] = line.split(',');
    if (has(source.rtrim(';').trim())) names_.push_back(negated.trim());
  }
  bool is_branch(llvm::StringRef line) const {
    if (!line.consume_front("@")) return false;
    line.consume_front("!");
    const auto [name, target] = line.split(" bra ");
    return !target.empty() && has(name.trim());
  }

 private:
  bool has(llvm::StringRef name) const { return llvm::is_contained(names_, name); }

  llvm::SmallVector<llvm::StringRef, 2> names_;
};

}  // namespace

llvm::Value* mark_uniform(llvm::IRBuilder<>& ir, llvm::Value* condition) {
  if (llvm::isa<llvm::Constant>(condition)) return condition;
  return call_asm(ir, ir.getInt1Ty(), "mov.pred $0, $1; " + kMark.str(), "=b,b", {condition});
}

std::string say_uniform(const std::string& ptx) {
  std::string out;
  out.reserve(ptx.size());
  Predicates predicates;  // of the mark before, up to the next label
  for (llvm::StringRef rest = ptx; !rest.empty();) {
    const auto [line, after] = rest.split('\n');
    const llvm::StringRef text = line.trim();
    if (const llvm::StringRef found = marked_register(text); !found.empty()) {
      predicates.mark(found);
      out += line.rtrim().drop_back(kMark.size()).rtrim();
    } else if (predicates.is_branch(text)) {
      const auto [condition, label] = line.split(" bra ");
      out += condition.str() + " bra.uni " + label.str();
    } else {
      if (text.ends_with(":")) predicates.forget();
      predicates.follow(text);
      out += line;
    }
    out += '\n';
    rest = after;
  }
  return out;
}

}  // namespace kiln::codegen::nvptx
