"""`python -m aggregator.page`: the page's own process, as the hub starts it, which hands it its descriptors."""

from aggregator.page.process import main

main()
