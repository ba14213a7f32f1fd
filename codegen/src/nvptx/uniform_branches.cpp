#include "nvptx/uniform_branches.h"

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

bool branches_on(llvm::StringRef line, llvm::StringRef predicate) {
  if (!line.consume_front("@")) return false;
  line.consume_front("!");
  return line.consume_front(predicate) && line.starts_with(" bra ");
}

}  // namespace

llvm::Value* mark_uniform(llvm::IRBuilder<>& ir, llvm::Value* condition) {
  if (llvm::isa<llvm::Constant>(condition)) return condition;
  return call_asm(ir, ir.getInt1Ty(), "mov.pred $0, $1; " + kMark.str(), "=b,b", {condition});
}

std::string say_uniform(const std::string& ptx) {
  std::string out;
  out.reserve(ptx.size());
  llvm::StringRef predicate;  // of the mark before, up to the next label
  for (llvm::StringRef rest = ptx; !rest.empty();) {
    const auto [line, after] = rest.split('\n');
    const llvm::StringRef text = line.trim();
    if (const llvm::StringRef found = marked_register(text); !found.empty()) {
      predicate = found;
      out += line.rtrim().drop_back(kMark.size()).rtrim();
    } else if (!predicate.empty() && branches_on(text, predicate)) {
      const auto [condition, label] = line.split(" bra ");
      out += condition.str() + " bra.uni " + label.str();
    } else {
      if (text.ends_with(":")) predicate = {};
      out += line;
    }
    out += '\n';
    rest = after;
  }
  return out;
}

}  // namespace kiln::codegen::nvptx
