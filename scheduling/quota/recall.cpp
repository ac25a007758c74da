#include "scheduling/quota/recall.hpp"

namespace ebb::scheduling {

Amount spare(const Lender& lender) {
  return positive(lender.booked - lender.used - lender.due.unused);
}

std::vector<Due> decide_recall(const std::vector<Lender>& lenders, const Amount& amount) {
  std::vector<Due> dues(lenders.size());
  Amount rest = positive(amount);
  for (std::size_t i = 0; i < lenders.size(); ++i) {
    dues[i].victims = min(rest, positive(lenders[i].victims_held));
    rest -= dues[i].victims;
  }
  for (std::size_t i = 0; i < lenders.size(); ++i) {
    dues[i].unused = min(rest, spare(lenders[i]));
    rest -= dues[i].unused;
  }
  return dues;
}

Due settle_due(Due due, const Amount& amount) {
  const Amount from_unused = min(due.unused, amount);
  due.unused -= from_unused;
  due.victims = positive(due.victims - (amount - from_unused));
  return due;
}

void lift_dues(std::vector<Due*> dues, const Amount& needed) {
  Amount sum;
  for (const Due* due : dues) sum += due->total();
  Amount excess = positive(sum - positive(needed));
  for (auto it = dues.rbegin(); it != dues.rend(); ++it) {
    const Amount cut = min(excess, (*it)->victims);
    (*it)->victims -= cut;
    excess -= cut;
  }
  for (auto it = dues.rbegin(); it != dues.rend(); ++it) {
    const Amount cut = min(excess, (*it)->unused);
    (*it)->unused -= cut;
    excess -= cut;
  }
}

}  // namespace ebb::scheduling
