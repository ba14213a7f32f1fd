#include "case_makers.h"

namespace kiln::quickstart {

std::vector<Case> quickstart_cases(bool small) {
  std::vector<Case> out;
  for (auto family : {element_cases, row_cases, order_cases, product_cases, convolution_cases, attention_cases}) {
    for (Case& test : family(small)) out.push_back(std::move(test));
  }
  return out;
}

}  // namespace kiln::quickstart
