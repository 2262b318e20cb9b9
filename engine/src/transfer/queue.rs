//! A queue whose first element needs no memory on the heap.

use std::collections::VecDeque;

/// A first-in, first-out queue for connections that mostly hold one element: most never allocate.
#[derive(Debug)]
pub struct Queue<T> {
    /// `None` only if the queue is empty.
    first: Option<T>,
    rest: VecDeque<T>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue { first: None, rest: VecDeque::new() }
    }
}

impl<T> Queue<T> {
    /// Returns whether it has no element.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    /// Returns the first element.
    pub fn front(&self) -> Option<&T> {
        self.first.as_ref()
    }

    /// As [`Queue::front`], to be changed.
    pub fn front_mut(&mut self) -> Option<&mut T> {
        self.first.as_mut()
    }

    /// Returns the last element, to be changed.
    pub fn back_mut(&mut self) -> Option<&mut T> {
        self.rest.back_mut().or(self.first.as_mut())
    }

    /// Iterates from the first element to the last.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    /// Appends an element.
    pub fn push_back(&mut self, element: T) {
        if self.first.is_none() {
            self.first = Some(element);
        } else {
            self.rest.push_back(element);
        }
    }

    /// Appends all elements of another queue, in order.
    pub fn append(&mut self, mut other: Queue<T>) {
        if let Some(first) = other.first {
            self.push_back(first);
            self.rest.append(&mut other.rest);
        }
    }

    /// Removes the first element.
    pub fn pop_front(&mut self) {
        self.first = self.rest.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(u8),
        Append(Vec<u8>),
        ChangeLast(u8),
        ChangeFirst(u8),
        Pop,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        prop::collection::vec(
            prop_oneof![
                any::<u8>().prop_map(Step::Push),
                prop::collection::vec(any::<u8>(), 0..4).prop_map(Step::Append),
                any::<u8>().prop_map(Step::ChangeLast),
                any::<u8>().prop_map(Step::ChangeFirst),
                Just(Step::Pop),
            ],
            0..40,
        )
    }

    fn queue(elements: &[u8]) -> Queue<u8> {
        let mut queue = Queue::default();
        elements.iter().for_each(|&element| queue.push_back(element));
        queue
    }

    proptest! {
        #[test]
        fn it_is_the_testedof_the_standard_library(steps in steps()) {
            let (mut tested, mut model) = (Queue::default(), VecDeque::new());
            for step in steps {
                match step {
                    Step::Push(element) => {
                        tested.push_back(element);
                        model.push_back(element);
                    }
                    Step::Append(elements) => {
                        tested.append(queue(&elements));
                        model.extend(elements);
                    }
                    Step::ChangeLast(element) => {
                        tested.back_mut().into_iter().for_each(|last| *last = element);
                        model.back_mut().into_iter().for_each(|last| *last = element);
                    }
                    Step::ChangeFirst(element) => {
                        tested.front_mut().into_iter().for_each(|first| *first = element);
                        model.front_mut().into_iter().for_each(|first| *first = element);
                    }
                    Step::Pop => {
                        tested.pop_front();
                        model.pop_front();
                    }
                }
                prop_assert_eq!(tested.iter().collect::<Vec<_>>(), model.iter().collect::<Vec<_>>());
                prop_assert_eq!((tested.len(), tested.is_empty(), tested.front()), (model.len(), model.is_empty(), model.front()));
            }
        }
    }
}
