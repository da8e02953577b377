"""`python -m aggregator.page`: starts the page's own process. The hub starts it, and hands it its descriptors."""

from aggregator.page.process import main

main()
