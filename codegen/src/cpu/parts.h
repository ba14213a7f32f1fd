// A long function in parts. LLVM's code generator takes a time that grows faster than a function, so a kernel of very
// many ops becomes functions of a bounded size, which the entry calls one after the other.
//
//   entry:                     entry:
//     a: …                       a: …
//     b: … %x = … %a      →      call i32 @part(%a, %x.place); %x = load %x.place
//     c: … %x                    c: … %x
#pragma once

#include <llvm/IR/Function.h>

#include <vector>

namespace kiln::codegen::cpu {

// Blocks at which a function may be cut. Those of a list follow each other: all that runs from one to the next, but for
// what returns from the function, neither begins nor ends elsewhere.
using Cuts = std::vector<std::vector<llvm::BasicBlock*>>;

// Where the function is long, each piece between two neighbours of a list becomes a function of its own. The lists of
// inner regions stand before those around them. What the function returns early, other than 0, its parts hand through.
// Otherwise the blocks become one with those before them, as if they had not been begun.
void split_into_parts(llvm::Function& function, const Cuts& cuts);

}  // namespace kiln::codegen::cpu
